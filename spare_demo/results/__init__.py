"""Results on disk: pictures, result.json, and archives to cite."""
