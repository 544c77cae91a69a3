// Contracts of the web operations that dialects call.
import { z } from 'zod';
import { defineContract } from '../../contract.ts';
import { jobId } from '../../contracts/jobs.ts';

export const readPicture = defineContract({
  name: 'read_picture',
  input: z.strictObject({
    id: jobId,
    file: z.string().regex(/^\w{1,60}\.(jpg|png)$/, 'not a picture file name'),
  }),
  output: z.object({ mimeType: z.string(), data: z.string() }),
});
