// Attaches pictures to responses. The file is on the node that took it; other nodes read it with read_picture.
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { AppError } from '../../../errors.ts';
import { visibleJob } from '../../../jobs/view.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import { pictureFolder } from '../browser/pictures.ts';
import { readPicture } from '../contracts.ts';
import type { WebDeps } from '../deps.ts';
import type { JobResponse } from '../contracts.ts';

const maxImageBytes = 3_000_000;
const maxImages = 5;
const imageOf = new WeakMap<object, { data: string; mimeType: string }[]>();

interface File {
  path: string;
  mimeType: string;
  bytes: number;
}

/** Attaches the picture as an image, separate from the structured response. */
export async function withImage<T extends JobResponse>({ call }: WebDeps, out: T): Promise<T> {
  const files = (out.pictures ?? (out.path ? [out] : [])) as File[];
  const included = files.filter(({ bytes }) => bytes <= maxImageBytes).slice(0, maxImages);
  const images = await Promise.all(
    included.map(async ({ path, mimeType }) => {
      const file = { id: out.id, file: basename(path) };
      const { data } = await call(readPicture, file);
      return { mimeType, data };
    }),
  );
  imageOf.set(out, images);
  return out;
}

export const picturesOf = (out: object) =>
  (imageOf.get(out) ?? []).map((image) => ({ type: 'image' as const, ...image }));

export function readPictureOperation(services: WebDeps): Operation {
  return defineOperation({
    ...readPicture,
    title: 'Read picture',
    description:
      'Reads a picture of take_screenshot or browse_page as base64, by job id and file name. Use it when the file is on another machine; on the same machine open the path. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { jobs: ({ id }) => [id] },
    at: 'job',
    http: { method: 'GET', path: '/api/web/pictures/{id}/{file}' },
    run: async ({ id, file }, { caller }) => {
      await visibleJob(services.jobs, id, caller);
      try {
        const bytes = await readFile(join(pictureFolder(services.folder, id), file));
        const mimeType = file.endsWith('.png') ? 'image/png' : 'image/jpeg';
        return { mimeType, data: bytes.toString('base64') };
      } catch (error) {
        throw new AppError('notFound', `Picture ${file} of job ${id} does not exist.`, {
          hint: 'Call get_job with includeResult to list the pictures of a job.',
          cause: error,
        });
      }
    },
  });
}
