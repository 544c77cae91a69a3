// The fields of an object that have a value. zod and destructuring produce omitted optional fields as undefined; the rest of the
// code, JSON and SQL expect them to be absent.
import { setOwn } from './by-name.ts';

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

export function defined<T extends object>(fields: T): Defined<T> {
  const present: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields))
    if (value !== undefined) setOwn(present, name, value);
  return present as Defined<T>;
}
