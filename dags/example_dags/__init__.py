"""DAGs to start from: copy one into your own folder of DAGs. Ours leaves them out (`.airflowignore`)."""
