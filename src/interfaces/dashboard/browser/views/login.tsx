// Login: with the single-use code of `errand open` in the fragment, or with an API key.
import { useEffect, useState } from 'preact/hooks';
import { base } from '../base.ts';
import { Command } from '../parts/copy.tsx';
import { go, path } from '../router.ts';
import { logIn } from '../session.ts';
import { reconnectStream } from '../stream/client.ts';

/** The code is removed from the address, so that it is neither kept in the history nor sent twice. */
function takeCode(): string | undefined {
  const code = location.hash.slice(1);
  if (code === '' || location.pathname !== `${base.pathname}login`) return undefined;
  history.replaceState(null, '', location.pathname);
  return code;
}

export function LoginView({ isAgain = false }: { isAgain?: boolean }) {
  const [key, setKey] = useState('');
  const [error, setError] = useState<string | undefined>(undefined);
  const [isBusy, setBusy] = useState(false);
  const enter = async (input: { code: string } | { key: string }) => {
    setBusy(true);
    setError(undefined);
    try {
      await logIn(input);
      reconnectStream();
      if (path.value === '/login') go('/jobs', { replace: true });
    } catch (problem) {
      setError(problem instanceof Error ? problem.message : String(problem));
    } finally {
      setBusy(false);
    }
  };
  useEffect(() => {
    const enterWithCode = () => {
      const code = takeCode();
      if (code !== undefined) void enter({ code });
    };
    enterWithCode();
    // A second link opened in the same tab changes only the fragment.
    addEventListener('hashchange', enterWithCode);
    return () => removeEventListener('hashchange', enterWithCode);
  }, []);
  return (
    <div class={isAgain ? 'login over' : 'login'}>
      <main class="login-box">
        <h1>{isAgain ? 'The session ended' : 'Log in to Errand'}</h1>
        <p>
          {isAgain ? 'It expired or was revoked. ' : ''}On the machine of the server, run this
          command. It opens a page that is logged in:
        </p>
        <Command text="errand open" />
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (key.trim() !== '') void enter({ key: key.trim() });
          }}
        >
          <label htmlFor="key">Or log in with an API key</label>
          <div class="field-row">
            <input
              id="key"
              type="password"
              autocomplete="current-password"
              spellcheck={false}
              value={key}
              onInput={(event) => setKey(event.currentTarget.value)}
            />
            <button type="submit" class="primary" disabled={isBusy}>
              Log in
            </button>
          </div>
          <p class="dim">
            <code>errand key create NAME</code> creates one. A key with only the scope read shows
            everything and changes nothing.
          </p>
        </form>
        <div role="alert">{error === undefined ? null : <p class="problem">{error}</p>}</div>
      </main>
    </div>
  );
}
