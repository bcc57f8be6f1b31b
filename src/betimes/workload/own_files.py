"""What Betimes's own files of workloads carry beside the columns: a note in JSON, under these marks."""

MARK = "# betimes-workload "  # opens the first line of a CSV file
KEY = b"betimes-workload"  # in the metadata of a Parquet file
