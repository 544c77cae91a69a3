// zod gives optional fields as undefined; the rest of the house leaves absent fields out.

export function withPresent<T extends object>(
  value: T,
): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const present: Record<string, unknown> = {};
  for (const [key, one] of Object.entries(value)) if (one !== undefined) present[key] = one;
  return present as { [K in keyof T]?: Exclude<T[K], undefined> };
}
