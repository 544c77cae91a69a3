// Views and parts that are loaded when they are first shown.
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ProblemBox } from './parts/problem.tsx';

export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let Loaded: ComponentType<P> | undefined;
  return function Lazy(props: P) {
    const [error, setError] = useState<unknown>(undefined);
    const [, setRound] = useState(0);
    useEffect(() => {
      if (Loaded) return;
      load().then(
        (component) => {
          Loaded = component;
          setRound((n) => n + 1);
        },
        // After an update of the server the old file does not exist any more.
        () => setError('This part could not be loaded. Reload the page.'),
      );
    }, []);
    if (error !== undefined) return <ProblemBox error={error} onRetry={() => location.reload()} />;
    return Loaded ? <Loaded {...props} /> : <div class="loading" aria-busy="true" />;
  };
}
