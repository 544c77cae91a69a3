// The state of a crawl or batch with its documents, one page of them per response; and single documents by their id.
import { readPages } from '../../kinds/web/contracts.ts';
import { callUnchecked } from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import { ownJob, expiryOf, isBatch, type WebJob } from './crawl.ts';
import type { Api, Asked } from './route.ts';
import { hasPictures, withPicture } from './pictures.ts';
import {
  answers,
  documentsOf,
  filterOf,
  placeAfter,
  placeOf,
  queryOf,
  type Counts,
  type Place,
  type Reading,
} from './document-order.ts';
import { changeOf, trackedSince } from './tracking.ts';
import { documentOf, statusOf, type Fields } from './translate.ts';
import { maxBytes, whole, type PagesOut } from './complete-pages.ts';
import { isRecord } from '../../runtime/json.ts';

/** As in the original: 100 documents unless `limit` says otherwise, and at most 10 MiB. */
const documentsDefault = 100;
const maxDocuments = 1000;
const maxResponseBytes = 10 * 1024 * 1024;
/** Pictures are part of the documents, so a response has fewer of those. */
const pictureLimit = 20;
const bodies = ['markdown', 'html', 'raw', 'links', 'images', 'metadata', 'data', 'screenshot'];

export const status: Api = async (asked) => (await lookAt(asked)).answer;

/**
 * `skip`: where a watcher of the crawl continues. `next` exists for what can be read now. The first response of a running crawl
 * always has it, as in the original; the response to that `next` has none until there is more, so that clients do not loop.
 */
export async function lookAt(asked: Asked): Promise<{ answer: Fields; skip: string }> {
  const { params, query, base } = asked;
  const id = params.id!;
  const job = await ownJob(asked, { includeInput: true });
  const counts = (job.result ?? job) as Counts;
  const source = await sourceOf(asked, job);
  const asking = query.get('limit') === null ? undefined : numberIn(query, 'limit', 1);
  const limit = Math.min(
    asking ?? documentsDefault,
    hasPictures(job.input) ? pictureLimit : maxDocuments,
  );
  const state = answeredWithout(job) ? 'completed' : statusOf(job.status);
  const reading: Reading = {
    counts,
    limit: Number(job.input?.maxPages ?? Infinity),
    tracks: source.since !== undefined,
    ended: state !== 'scraping',
  };
  const start = placeOf(query, numberIn(query, 'skip', 0));
  const { documents, position, next } = await filled(source, reading, start, limit);
  const pages = (counts.pages ?? 0) + answers(reading);
  const waiting = reading.ended ? 0 : (counts.outcomes?.queued ?? 0);
  const kind = isBatch(job) ? 'batch/scrape' : 'crawl';
  const { createdAt, finishedAt, runMs = 0 } = job.timings;
  const more = asking === undefined ? '' : `&limit=${asking}`;
  const goesOn = !reading.ended && !query.has('skip');
  const after = next ?? (goesOn ? { ...start, skip: position } : undefined);
  const answer = {
    success: true,
    status: state,
    total: Math.min(pages + waiting, reading.limit),
    completed: pages,
    creditsUsed: counts.creditsUsed ?? counts.pages ?? 0,
    createdAt,
    ...(finishedAt ? { completedAt: finishedAt } : {}),
    duration: Math.round(runMs / 1000),
    expiresAt: expiryOf(job),
    next: after === undefined ? null : `${base}/${kind}/${id}?${queryOf(after)}${more}`,
    data: documents,
    ...(job.error && state !== 'completed' ? { error: job.error.message } : {}),
  };
  return { answer, skip: String(position) };
}

interface Source {
  asked: Asked;
  id: string;
  fields: string[];
  since: string | null | undefined;
}

async function sourceOf(asked: Asked, job: WebJob): Promise<Source> {
  const since = await trackedSince(asked, job);
  const fields = since === undefined ? bodies : [...bodies, 'diff'];
  return { asked, id: job.id, fields, since };
}

/** As many documents as one response has room for, of all parts. `position`: after the pages among them. */
async function filled(
  source: Source,
  reading: Reading,
  start: Place,
  limit: number,
): Promise<{ documents: Fields[]; position: number; next: Place | undefined }> {
  const documents: Fields[] = [];
  let bytes = 0;
  let position = start.skip;
  let next: Place | undefined = start;
  while (next && documents.length < limit) {
    const place: Place = next;
    const read = await readFrom(source, {
      limit: limit - documents.length,
      ...(place.skip > 0 ? { cursor: String(place.skip) } : {}),
      ...filterOf(place),
    });
    const found = await Promise.all(
      documentsOf(reading, place, read.pages).map((page) => documentFrom(source, page)),
    );
    const size = found.reduce((sum, one) => sum + Buffer.byteLength(JSON.stringify(one)), 0);
    // read_pages returns a few pages at a time, and a very long one alone.
    if (documents.length > 0 && bytes + size > maxResponseBytes) break;
    documents.push(...found);
    bytes += size;
    if (place.part === 'pages') position = place.skip + read.pages.length;
    next = placeAfter(reading, place, {
      rows: read.pages.length,
      documents: found.length,
      cursor: read.nextCursor === undefined ? undefined : Number(read.nextCursor),
    });
  }
  return { documents, position, next };
}

function readFrom({ asked, id, fields }: Source, requested: Fields): Promise<PagesOut> {
  return callUnchecked(asked.call, readPages, { id, fields, maxBytes, ...requested });
}

async function documentFrom({ asked, id, fields, since }: Source, row: Fields): Promise<Fields> {
  const page = await withPicture(asked, id, await whole(asked, id, row, fields));
  const { metadata, ...document } = documentOf(page);
  const isCompared =
    since !== undefined && (page.outcome !== 'errored' || page.change !== undefined);
  return {
    ...document,
    ...(isCompared ? { changeTracking: changeOf(page, since) } : {}),
    metadata: { ...(metadata as Fields), scrapeId: `${id}-${String(row.n)}` },
  };
}

const documentId = /^(job_[0-9a-z]+)-(\d+)$/;
const anyOutcome = ['fetched', 'unchanged', 'errored', 'redirected', 'duplicate', 'skipped'];

/** A document of a crawl or batch by its `scrapeId`; undefined: that is not the id of one. */
export async function documentAt(asked: Asked): Promise<Fields | undefined> {
  const [, id, n] = documentId.exec(asked.params.id!) ?? [];
  if (id === undefined) return undefined;
  const job = await ownJob({ ...asked, params: { id } }, { includeInput: true });
  const source = await sourceOf(asked, job);
  const after = { cursor: String(Number(n) - 1), outcomes: anyOutcome, limit: 1 };
  const [row] = (await readFrom(source, after)).pages;
  if (row && row.n === Number(n)) return documentFrom(source, row);
  throw new AppError('notFound', `${id} has no document ${n}.`, {
    hint: 'Pass the scrapeId from the metadata of a document.',
  });
}

function numberIn(query: URLSearchParams, name: string, min: number): number {
  const number = Number(query.get(name) ?? 0);
  if (Number.isSafeInteger(number) && number >= min) return number;
  throw new AppError('invalidInput', `${name} must be a whole number of at least ${min}.`, {
    hint: 'Use `next` as it came.',
  });
}

/** No page was read, but the site responded, or only the start was read for its links: clients expect a normal end. */
function answeredWithout({ error, input }: WebJob): boolean {
  if (error?.code !== 'nothingFetched') return false;
  const answered = isRecord(error.data) && typeof error.data.status === 'number';
  return answered || input?.startsMatch === true;
}
