// zod returns omitted optional fields as undefined. The rest of the code expects them to be absent.
import { setOwn } from '../../../runtime/by-name.ts';

export function omitUndefined<T extends object>(
  value: T,
): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const present: Record<string, unknown> = {};
  for (const [key, one] of Object.entries(value)) if (one !== undefined) setOwn(present, key, one);
  return present as { [K in keyof T]?: Exclude<T[K], undefined> };
}
