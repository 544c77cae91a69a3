// Logins of this dashboard: which are open, and a way to end them.
import { get, problemText, remove } from '../api.ts';
import { useLoaded } from '../parts/loading.ts';
import { ProblemBox } from '../parts/problem.tsx';
import { Time } from '../parts/time.tsx';
import { showToast } from '../parts/toast.tsx';
import { logOut } from '../session.ts';

interface SessionView {
  id: string;
  owner: string;
  readOnly: boolean;
  scopes: string[];
  client?: string;
  createdAt: string;
  seenAt: string;
  expiresAt: string;
  isCurrent: boolean;
}

export function SessionsView() {
  const { value, error, reload } = useLoaded('sessions', (signal) =>
    get<{ sessions: SessionView[] }>('api/sessions', {}, signal),
  );
  const end = async ({ id, isCurrent }: SessionView) => {
    if (isCurrent) return logOut();
    try {
      await remove(`api/sessions/${encodeURIComponent(id)}`);
      showToast('The session has ended.');
      reload();
    } catch (problem) {
      showToast(problemText(problem), { isError: true });
    }
  };
  return (
    <section class="view" aria-labelledby="sessions-title">
      <h1 id="sessions-title">Sessions</h1>
      <p class="dim">Each login of a browser is a session. Ending one logs that browser out.</p>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      <div class="panel table-scroll">
        <table class="plain-table wide">
          <caption class="off-screen">Sessions</caption>
          <thead>
            <tr>
              <th scope="col">Owner</th>
              <th scope="col">Rights</th>
              <th scope="col">Browser</th>
              <th scope="col">Created</th>
              <th scope="col">Last used</th>
              <th scope="col">Expires</th>
              <th scope="col">
                <span class="off-screen">End</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {value?.sessions.map((session) => (
              <tr key={session.id}>
                <td>
                  {session.owner}
                  {session.isCurrent ? <span class="tag">this one</span> : null}
                </td>
                <td>{session.readOnly ? 'read-only' : session.scopes.join(', ')}</td>
                <td class="data">{browserName(session.client)}</td>
                <td>
                  <Time at={session.createdAt} />
                </td>
                <td>
                  <Time at={session.seenAt} />
                </td>
                <td>
                  <Time at={session.expiresAt} />
                </td>
                <td>
                  <button type="button" onClick={() => void end(session)}>
                    {session.isCurrent ? 'Log out' : 'End'}
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** The interesting part of a user agent. */
function browserName(client: string | undefined): string {
  if (client === undefined) return '–';
  const browser = /(Firefox|Edg|OPR|HeadlessChrome|Chrome|Safari)\/[\d]+/.exec(client)?.[0];
  const system = /Windows|Mac OS X|Android|iPhone|iPad|Linux/.exec(client)?.[0];
  return (
    [browser?.replace('/', ' '), system].filter((part) => part !== undefined).join(' · ') || client
  );
}
