// Pictures beside the answer. The file is on the node that took it: any other node asks that one for the bytes.
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { jobId } from '../../../jobs/operation-needs.ts';
import { AppError } from '../../../errors.ts';
import { visibleJob } from '../../../jobs/view.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import { pictureFolder } from '../browser/pictures.ts';
import type { Services } from '../services.ts';
import type { Answer } from './run.ts';

const imageBytesMax = 3_000_000;
const imagesMax = 5;
const imageOf = new WeakMap<object, { data: string; mimeType: string }[]>();

interface File {
  path: string;
  mimeType: string;
  bytes: number;
}

/** The picture goes beside the structure, never into its text. */
export async function withImage<T extends Answer>({ call }: Services, out: T): Promise<T> {
  const files = (out.pictures ?? (out.path ? [out] : [])) as File[];
  const shown = files.filter(({ bytes }) => bytes <= imageBytesMax).slice(0, imagesMax);
  const images = await Promise.all(
    shown.map(async ({ path, mimeType }) => {
      const file = { id: out.jobId, file: basename(path) };
      const { data } = await call<{ data: string }>('read_picture', file);
      return { mimeType, data };
    }),
  );
  imageOf.set(out, images);
  return out;
}

export const picturesOf = (out: object) =>
  (imageOf.get(out) ?? []).map((image) => ({ type: 'image' as const, ...image }));

export function readPicture(services: Services): Operation {
  return defineOperation({
    name: 'read_picture',
    title: 'Read picture',
    description:
      'Reads a picture that take_screenshot or browse_page took, by the job and the last part of its path, as base64. Use it when the file is on another machine; on the same machine open the path. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { jobs: ({ id }) => [id] },
    at: 'job',
    input: z.strictObject({
      id: jobId,
      file: z.string().regex(/^\w{1,60}\.(jpg|png)$/, 'not the name of a picture'),
    }),
    output: z.object({ mimeType: z.string(), data: z.string() }),
    http: { method: 'GET', path: '/api/web/pictures/{id}/{file}' },
    run: async ({ id, file }, { caller }) => {
      await visibleJob(services.jobs, id, caller);
      try {
        const bytes = await readFile(join(pictureFolder(services.folder, id), file));
        const mimeType = file.endsWith('.png') ? 'image/png' : 'image/jpeg';
        return { mimeType, data: bytes.toString('base64') };
      } catch (error) {
        throw new AppError('notFound', `There is no picture ${file} of ${id}.`, {
          hint: 'get_job with includeResult names the pictures of a job.',
          cause: error,
        });
      }
    },
  });
}
