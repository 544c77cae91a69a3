// zod gives optional fields as undefined; the rest of the house leaves absent fields out.
import { setOwn } from '../../../runtime/by-name.ts';

export function withPresent<T extends object>(
  value: T,
): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const present: Record<string, unknown> = {};
  for (const [key, one] of Object.entries(value)) if (one !== undefined) setOwn(present, key, one);
  return present as { [K in keyof T]?: Exclude<T[K], undefined> };
}
