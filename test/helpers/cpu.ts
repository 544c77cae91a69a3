// Measures CPU time instead of wall time, so that a limit also holds on a busy machine.

/** Milliseconds of CPU that this process used while `work` ran. */
export async function cpuMs(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
