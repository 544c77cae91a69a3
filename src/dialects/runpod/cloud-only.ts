// Routes that exist only in RunPod's cloud. RunPod's clients report a 401 or 404 from these addresses as a wrong key, so the
// response says what is missing.
import type { DialectRoute } from '../../dialect.ts';
import { AppError } from '../../errors.ts';

const message =
  'This server has no GraphQL API: public endpoints, the hub and account data exist only in the cloud of RunPod. The key is not the problem.';

/** GraphQL reports errors with status 200. The route needs no key, but rejects a wrong one like every other route. */
export const graphqlRoutes: DialectRoute[] = (['GET', 'POST'] as const).map((method) => ({
  method,
  path: '/graphql',
  auth: 'none',
  handle: async ({ caller, headers }) => {
    if (!caller && headers.authorization !== undefined)
      throw new AppError('unauthorized', 'The API key is not valid.');
    return {
      status: 200,
      body: { data: null, errors: [{ message, extensions: { code: 'NOT_AVAILABLE' } }] },
    };
  },
}));

/** Resources of the control plane that this server does not have. */
const resources =
  /^\/v2\/(serverless|pods|clusters|templates|network-volumes|registries|catalog|billing|account)(\/|$)/;

export const isControlPlane = (path: string): boolean => resources.test(path);
