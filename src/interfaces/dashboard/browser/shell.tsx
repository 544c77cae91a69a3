// The frame of every view: navigation, connection state, palette, messages; or the login when there is no session.
import { useEffect, useState } from 'preact/hooks';
import { isLoggedOut, Problem } from './api.ts';
import { viewAt } from './areas.tsx';
import { isTyping, useKeys } from './keys.ts';
import { ConnectionState } from './parts/connection.tsx';
import { Navigation } from './parts/navigation.tsx';
import { Palette } from './parts/palette.tsx';
import { ProblemBox } from './parts/problem.tsx';
import { Toasts } from './parts/toast.tsx';
import { go, path } from './router.ts';
import { loadMe, me } from './session.ts';
import { connectStream } from './stream/client.ts';
import { LoginView } from './views/login.tsx';

export function Shell() {
  const [error, setError] = useState<unknown>(undefined);
  const isLogin = path.value === '/login';
  const load = () => {
    setError(undefined);
    loadMe().catch((problem: unknown) => {
      if (!(problem instanceof Problem && problem.status === 401)) setError(problem);
    });
  };
  useEffect(() => {
    if (!isLogin) load();
  }, []);
  useEffect(() => {
    if (me.value && !isLoggedOut.value) connectStream();
  }, [me.value, isLoggedOut.value]);
  return (
    <>
      {isLogin || (isLoggedOut.value && !me.value) ? (
        <LoginView />
      ) : me.value ? (
        <Frame />
      ) : (
        <main class="alone">
          {error === undefined ? null : <ProblemBox error={error} onRetry={load} />}
        </main>
      )}
      <Toasts />
    </>
  );
}

function Frame() {
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  useKeys({ '/': () => document.querySelector<HTMLInputElement>('#filter')?.focus() });
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        setPaletteOpen((isOpen) => !isOpen);
      }
    };
    const onPaste = (event: ClipboardEvent) => {
      const id = /\bjob_[0-9a-hjkmnp-tv-z]{16}\b/.exec(
        event.clipboardData?.getData('text') ?? '',
      )?.[0];
      if (id !== undefined && !isTyping(event.target)) go(`/jobs/${id}`);
    };
    document.addEventListener('keydown', onKeyDown);
    document.addEventListener('paste', onPaste);
    return () => {
      document.removeEventListener('keydown', onKeyDown);
      document.removeEventListener('paste', onPaste);
    };
  }, []);
  const { View, id } = viewAt(path.value);
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Navigation onPalette={() => setPaletteOpen(true)} />
      <div class="page">
        <ConnectionState />
        <main id="main" tabIndex={-1}>
          <View id={id} />
        </main>
      </div>
      {isPaletteOpen ? <Palette onClose={() => setPaletteOpen(false)} /> : null}
      {isLoggedOut.value ? <LoginView isAgain /> : null}
    </div>
  );
}
