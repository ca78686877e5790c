SELECT path, position, severity, reason FROM bronze.quarantine WHERE {own}
