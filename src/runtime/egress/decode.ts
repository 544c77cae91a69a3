// Decodes content encodings under a size limit: a small body that unpacks to gigabytes stops at the limit.
import { byName } from '../by-name.ts';
import type { Transform } from 'node:stream';
import { promisify } from 'node:util';
import zlib from 'node:zlib';

export interface Codec {
  sync(data: Buffer, options: { maxOutputLength: number }): Buffer;
  async(data: Buffer, options: { maxOutputLength: number }): Promise<Buffer>;
  /** Created when the first bytes arrive, because they identify the format. */
  stream(first: Buffer): Transform;
}

/** Returns the available part of truncated gzip: many servers end it incorrectly, and every browser shows the page. */
const lenient = { finishFlush: zlib.constants.Z_SYNC_FLUSH };
const inflate = promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.unzip);
const inflateRaw = promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.inflateRaw);
const brotli = promisify<Buffer, zlib.BrotliOptions, Buffer>(zlib.brotliDecompress);
const zstd = promisify<Buffer, zlib.ZstdOptions, Buffer>(zlib.zstdDecompress);

const gzip: Codec = {
  sync: (data, options) => zlib.unzipSync(data, { ...lenient, ...options }),
  async: (data, options) => inflate(data, { ...lenient, ...options }),
  stream: () => zlib.createUnzip(lenient),
};

const codecs: Record<string, Codec> = byName({
  gzip,
  'x-gzip': gzip,
  // Some servers send raw deflate under this name. The first bytes distinguish them.
  deflate: {
    sync: (data, options) =>
      isZlib(data)
        ? gzip.sync(data, options)
        : zlib.inflateRawSync(data, { ...lenient, ...options }),
    async: (data, options) =>
      isZlib(data) ? gzip.async(data, options) : inflateRaw(data, { ...lenient, ...options }),
    stream: (first) => (isZlib(first) ? zlib.createUnzip(lenient) : zlib.createInflateRaw(lenient)),
  },
  br: {
    sync: (data, options) => zlib.brotliDecompressSync(data, options),
    async: (data, options) => brotli(data, options),
    stream: () => zlib.createBrotliDecompress(),
  },
  zstd: {
    sync: (data, options) => zlib.zstdDecompressSync(data, options),
    async: (data, options) => zstd(data, options),
    stream: () => zlib.createZstdDecompress(),
  },
});

export const acceptEncoding = 'gzip, deflate, br, zstd';

/** More layers than this are an attack. */
const maxLayers = 2;
/** Below this, synchronous decoding is cheaper than the thread pool, and the limit bounds it. */
const maxSyncBytes = 128 * 1024;

/** The codecs to undo, last applied first. Undefined if one is unknown, so that the bytes stay encoded. */
export function decoders(header: string | string[] | undefined): Codec[] | undefined {
  if (header === undefined) return [];
  const names = String(header)
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'identity');
  if (names.length > maxLayers || !names.every((name) => Object.hasOwn(codecs, name)))
    return undefined;
  return names.map((name) => codecs[name]!).toReversed();
}

export async function decodeBytes(data: Buffer, chain: Codec[], maxBytes: number): Promise<Buffer> {
  let result = data;
  for (const codec of chain) {
    if (result.length === 0) return result;
    const options = { maxOutputLength: Math.max(1, maxBytes) };
    result =
      result.length <= maxSyncBytes
        ? codec.sync(result, options)
        : await codec.async(result, options);
  }
  return result;
}

export function isOverCap(error: unknown): boolean {
  return (error as NodeJS.ErrnoException | undefined)?.code === 'ERR_BUFFER_TOO_LARGE';
}

/** Pulls the source through the decoders in chunks, at the reader's pace. */
export async function* decodeChunks(
  source: AsyncIterable<Buffer>,
  chain: Codec[],
): AsyncGenerator<Buffer> {
  const [codec, ...rest] = chain;
  if (!codec) return yield* source;
  const iterator = source[Symbol.asyncIterator]();
  try {
    const first = await iterator.next();
    if (first.done) return;
    const stream = codec.stream(first.value);
    void feed(stream, first.value, iterator);
    try {
      yield* decodeChunks(stream as AsyncIterable<Buffer>, rest);
    } finally {
      stream.destroy();
    }
  } finally {
    await iterator.return?.();
  }
}

async function feed(stream: Transform, first: Buffer, rest: AsyncIterator<Buffer>): Promise<void> {
  try {
    for (let chunk = first; ;) {
      if (!stream.write(chunk)) await waitForRoom(stream);
      if (stream.destroyed) return;
      const next = await rest.next();
      if (next.done) return void stream.end();
      chunk = next.value;
    }
  } catch (error) {
    stream.destroy(error as Error);
  }
}

function waitForRoom(stream: Transform): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      stream.off('drain', done);
      stream.off('close', done);
      resolve();
    };
    stream.on('drain', done);
    stream.on('close', done);
  });
}

function isZlib(data: Buffer): boolean {
  return data.length < 2 || ((data[0]! & 0x0f) === 8 && data.readUInt16BE(0) % 31 === 0);
}
