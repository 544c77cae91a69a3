// Loads a value for a view, and again when its key changes or when asked to. An outdated response is dropped.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

interface Loaded<T> {
  value: T | undefined;
  error: unknown;
  isLoading: boolean;
  reload(): void;
}

export function useLoaded<T>(key: string, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<{
    key: string;
    value?: T;
    error?: unknown;
    isLoading: boolean;
  }>({
    key,
    isLoading: true,
  });
  const [round, setRound] = useState(0);
  const current = useRef(load);
  current.current = load;
  useEffect(() => {
    const abort = new AbortController();
    setState((before) =>
      before.key === key ? { ...before, isLoading: true } : { key, isLoading: true },
    );
    current.current(abort.signal).then(
      (value) => {
        if (!abort.signal.aborted) setState({ key, value, isLoading: false });
      },
      (error: unknown) => {
        if (!abort.signal.aborted)
          setState((before) => ({
            key,
            ...(before.value === undefined ? {} : { value: before.value }),
            error,
            isLoading: false,
          }));
      },
    );
    return () => abort.abort();
  }, [key, round]);
  const reload = useCallback(() => setRound((n) => n + 1), []);
  const { value, error, isLoading } =
    state.key === key ? state : { value: undefined, error: undefined, isLoading: true };
  return { value, error, isLoading, reload };
}
