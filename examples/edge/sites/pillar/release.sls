greeting: one release for all sites
