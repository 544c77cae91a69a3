// Polls with a deadline that only a failure reaches, even on a busy machine. Tests never use a plain sleep.

export async function until<T>(
  what: string,
  check: () => T | Promise<T>,
  deadlineMs = 120_000,
): Promise<NonNullable<T>> {
  const end = Date.now() + deadlineMs;
  let last: unknown;
  for (;;) {
    try {
      const value = await check();
      if (value) return value;
      last = value;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) {
      throw new Error(`timed out after ${deadlineMs} ms waiting until ${what}`, { cause: last });
    }
    await new Promise((resolve) => setTimeout(resolve, 15));
  }
}
