"""The manifests of a new snapshot: written for added files, filtered, merged."""
