// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// crowd PROCESSES DESCRIPTORS makes that many processes that sleep, with so many open files each, and writes their
// numbers, one a line. All end with it, and it ends with its standard input.

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static void sleeper(int descriptors)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < descriptors; i++)
		if (open("/dev/null", O_RDONLY) < 0)
			exit(1);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	for (int n = atoi(argv[1]); n > 0; n--) {
		pid_t pid = fork();
		if (pid < 0) {
			perror("fork");
			return 1;
		}
		if (pid == 0)
			sleeper(atoi(argv[2]));
		printf("%d\n", pid);
	}
	fclose(stdout);
	char end;
	return read(0, &end, 1) < 0;
}
