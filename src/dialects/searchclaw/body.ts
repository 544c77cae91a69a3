// Validates the parts of a request body that this dialect reads itself. The operations validate everything else.
import { z } from 'zod';
import { AppError } from '../../errors.ts';
import type { Fields } from './call.ts';

const thing = z.looseObject({});
const bodyShape = z.looseObject({
  actions: z.array(thing).nullish(),
  chunking: z
    .looseObject({
      enabled: z.boolean().optional(),
      max_chunk_size: z.number().int().min(50).max(10_000).optional(),
      overlap: z.number().int().min(0).max(500).optional(),
      strategy: z.enum(['fixed', 'sentence', 'semantic']).optional(),
    })
    .nullish(),
  pagination: z
    .looseObject({
      type: z.string().optional(),
      selector: z.string().optional(),
      pattern: z.string().optional(),
      max_pages: z.number().int().min(1).optional(),
    })
    .nullish(),
  list_selector: z.string().nullish(),
  viewport: thing.nullish(),
});

export function bodyOf(body: unknown): Fields {
  const parsed = bodyShape.safeParse(body ?? {});
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue!.path.join('.') || 'body';
  throw new AppError('invalidInput', `Invalid input: ${where}: ${issue!.message}.`, {
    hint: 'The fields and their limits are those of SearchClaw.',
  });
}
