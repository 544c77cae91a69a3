// Tables that are looked up by a name from outside: without a prototype, so that `constructor`, `__proto__` and `toString`
// are names like all others.

export function byName<T>(entries: Record<string, T>): Record<string, T> {
  return Object.assign(Object.create(null) as Record<string, T>, entries);
}

/** Sets a value under a name from outside; plain assignment to `__proto__` would change the prototype instead. */
export function setOwn<T>(object: Record<string, T>, name: string, value: NoInfer<T>): void {
  Object.defineProperty(object, name, {
    value,
    writable: true,
    enumerable: true,
    configurable: true,
  });
}

/** The value of this name in an object that was made elsewhere; undefined for names that it only inherits. */
export function ownValue<T>(object: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}
