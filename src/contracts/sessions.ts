// Contract of the operation that logs a browser in.
import { z } from 'zod';
import { defineContract } from '../contract.ts';

export const createLoginCode = defineContract({
  name: 'create_login_code',
  input: z.object({
    readOnly: z.boolean().default(false).describe('The session cannot change anything'),
  }),
  output: z.object({
    code: z.string(),
    url: z.string().describe('The login page with the code in its fragment'),
    expiresAt: z.string(),
  }),
});
