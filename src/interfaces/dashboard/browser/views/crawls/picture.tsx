// A picture that a web job took. It comes from this server as data: the policy allows no other pictures.
import { get } from '../../api.ts';
import { useLoaded } from '../../parts/loading.ts';
import { ProblemBox } from '../../parts/problem.tsx';

export function Picture({ jobId, file }: { jobId: string; file: string }) {
  const { value, error, reload } = useLoaded(`${jobId}/${file}`, (signal) =>
    get<{ mimeType: string; data: string }>(
      `api/web/pictures/${jobId}/${encodeURIComponent(file)}`,
      {},
      signal,
    ),
  );
  if (error !== undefined) return <ProblemBox error={error} onRetry={reload} />;
  if (!value) return <div class="loading" aria-busy="true" />;
  const source = `data:${value.mimeType === 'image/png' ? 'image/png' : 'image/jpeg'};base64,${value.data}`;
  return (
    <figure class="picture">
      <img src={source} alt={`Screenshot ${file}`} />
      <figcaption>
        <a href={source} download={file}>
          Download
        </a>
      </figcaption>
    </figure>
  );
}

/** The files of a result with `path` or `pictures`. */
export function picturesOf(result: unknown): string[] {
  const { path, pictures } = (result ?? {}) as { path?: unknown; pictures?: { path?: unknown }[] };
  const paths = [path, ...(Array.isArray(pictures) ? pictures.map((one) => one?.path) : [])];
  return paths.filter((one) => typeof one === 'string').map(fileIn);
}

export const fileIn = (path: string): string => path.split(/[\\/]/).at(-1)!;
