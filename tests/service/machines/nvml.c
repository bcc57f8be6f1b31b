/* A stand-in for NVIDIA's library: boards GPU-0 to GPU-7. FAULT_FILE, if it is there, has what is wrong: it hangs, the
   boards give no answer; otherwise each has computed for half of the last second, and holds 10 of 80 GiB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fault(const char *which) {
  char text[16] = "";
  FILE *file = fopen(FAULT_FILE, "r");
  if (file == NULL) return 0;
  if (fgets(text, sizeof text, file) == NULL) text[0] = 0;
  fclose(file);
  return strcmp(text, which) == 0;
}

int nvmlInit_v2(void) { return fault("init") ? 9 : 0; }

int nvmlDeviceGetHandleByUUID(const char *name, void **board) {
  while (fault("hang")) usleep(10000);
  *board = (void *)name;
  return strncmp(name, "GPU-", 4) == 0 && name[4] >= '0' && name[4] <= '7' ? 0 : 6;
}

int nvmlDeviceGetUtilizationRates(void *board, unsigned int *rates) {
  (void)board;
  rates[0] = 50, rates[1] = 7;
  return fault("lost") ? 15 : 0;
}

int nvmlDeviceGetMemoryInfo(void *board, unsigned long long *memory) {
  (void)board;
  memory[0] = 80ull << 30, memory[1] = 70ull << 30, memory[2] = 10ull << 30;
  return 0;
}
