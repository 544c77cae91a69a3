// A choice of the reader that survives a reload.
import { useState } from 'preact/hooks';

export function useStored(name: string, initial: boolean): [boolean, (value: boolean) => void] {
  const [value, setValue] = useState(() => readStored(name) ?? initial);
  return [
    value,
    (next) => {
      try {
        localStorage.setItem(name, String(next));
      } catch {
        // The browser keeps nothing for this site: the choice lasts until the reload.
      }
      setValue(next);
    },
  ];
}

function readStored(name: string): boolean | undefined {
  try {
    const stored = localStorage.getItem(name);
    return stored === null ? undefined : stored === 'true';
  } catch {
    return undefined;
  }
}
