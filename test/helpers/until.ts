// Waiting in tests: poll with a deadline, never a sleep for its own sake.

export async function until<T>(
  what: string,
  check: () => T | Promise<T>,
  deadlineMs = 30_000,
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
      throw new Error(`waited ${deadlineMs} ms in vain until ${what}`, { cause: last });
    }
    await new Promise((resolve) => setTimeout(resolve, 15));
  }
}
