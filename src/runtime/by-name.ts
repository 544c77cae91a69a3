// Lookup tables for names from outside. They have no prototype, so `constructor`, `__proto__` and `toString` are
// ordinary names.

export function byName<T>(entries: Record<string, T>): Record<string, T> {
  return Object.assign(Object.create(null) as Record<string, T>, entries);
}

/** Sets a value under a name from outside. Plain assignment to `__proto__` would change the prototype instead. */
export function setOwn<T>(object: Record<string, T>, name: string, value: NoInfer<T>): void {
  Object.defineProperty(object, name, {
    value,
    writable: true,
    enumerable: true,
    configurable: true,
  });
}

/** Returns the object's own value, or undefined for a name that it only inherits. */
export function ownValue<T>(object: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}
