// Maps error codes to CardZero's codes and HTTP statuses. Pure.
import { byName } from '../../runtime/by-name.ts';
import { AppError, errorKind } from '../../errors.ts';

export interface CardzeroError {
  status: number;
  error: string;
  message: string;
  headers?: Record<string, string>;
}

const codes: Record<string, [code: string, status: number]> = byName({
  unauthorized: ['UNAUTHORIZED', 401],
  forbidden: ['FORBIDDEN', 403],
  notFound: ['JOB_NOT_FOUND', 404],
  walletNotFound: ['WALLET_NOT_FOUND', 404],
  paymentNotFound: ['PAYMENT_NOT_FOUND', 404],
  walletRequired: ['API_KEY_NOT_BOUND_TO_WALLET', 401],
  walletFrozen: ['WALLET_FROZEN', 400],
  walletExpired: ['WALLET_EXPIRED', 400],
  walletNotActive: ['WALLET_NOT_ACTIVE', 400],
  claimKeyInvalid: ['CLAIM_KEY_INVALID', 409],
  notInAllowlist: ['NOT_IN_WHITELIST', 400],
  txLimitExceeded: ['TX_LIMIT_EXCEEDED', 400],
  dailyLimitExceeded: ['DAILY_LIMIT_EXCEEDED', 400],
  insufficientBalance: ['INSUFFICIENT_BALANCE', 400],
  expiryTooShort: ['EXPIRY_TOO_SHORT', 400],
  expiryTooLong: ['INVALID_EXPIRY', 400],
  ruleCannotRun: ['INVALID_EVALUATOR_RULE', 400],
  unsupportedBySettlement: ['INVALID_EVALUATOR_RULE', 400],
  invalidHash: ['INVALID_HASH', 400],
  hashMismatch: ['INVALID_HASH', 400],
  deliveryCannotPass: ['INVALID_DELIVERABLE', 400],
  selfJob: ['SELF_JOB', 400],
  notClient: ['NOT_CLIENT', 403],
  notProvider: ['NOT_PROVIDER', 403],
  notEvaluator: ['FORBIDDEN', 403],
  notParty: ['FORBIDDEN', 403],
  wrongStage: ['INVALID_STATUS', 400],
  jobFinal: ['INVALID_STATUS', 400],
  deadlinePassed: ['INVALID_STATUS', 400],
  notYetExpired: ['NOT_YET_EXPIRED', 400],
  evaluationPending: ['NOT_YET_EXPIRED', 400],
  settlementPending: ['JOB_BUSY', 409],
  budgetChanged: ['BUDGET_CHANGED', 409],
  maxBudgetExceeded: ['SOFT_START_CAP', 400],
  idempotencyConflict: ['IDEMPOTENCY_CONFLICT', 409],
  maxAmountExceeded: ['EXCEEDS_MAX_AMOUNT', 400],
  unsupported: ['UNSUPPORTED_NETWORK', 400],
  escrowPaused: ['PAUSED', 503],
  rateLimited: ['RATE_LIMITED', 429],
  limitExceeded: ['RATE_LIMITED', 429],
  settlementFailed: ['CHAIN_ERROR', 502],
  unavailable: ['CHAIN_ERROR', 502],
});

/** Fields, ours and those of CardZero's tools, that have their own error code. The first invalid field decides. */
const fieldCodes: Record<string, string> = byName({
  provider: 'INVALID_ADDRESS',
  providerAddress: 'INVALID_ADDRESS',
  to: 'INVALID_ADDRESS',
  recipient: 'INVALID_ADDRESS',
  wallet: 'INVALID_ADDRESS',
  allowlist: 'INVALID_ADDRESS',
  title: 'INVALID_TITLE',
  description: 'INVALID_DESCRIPTION',
  rule: 'INVALID_EVALUATOR_RULE',
  evaluatorRule: 'INVALID_EVALUATOR_RULE',
  name: 'INVALID_NAME',
  contentHash: 'INVALID_HASH',
  budget: 'INVALID_BUDGET',
  budgetUsdc: 'INVALID_BUDGET',
  amount: 'INVALID_AMOUNT',
  maxAmount: 'INVALID_AMOUNT',
  perTransaction: 'INVALID_AMOUNT',
  perDay: 'INVALID_AMOUNT',
  url: 'INVALID_URL',
  uri: 'INVALID_URL',
});

/** Our field names and the names that CardZero callers send. */
const fieldNames: Record<string, string> = byName({
  provider: 'providerAddress',
  budget: 'budgetUsdc',
  rule: 'evaluatorRule',
  expiresAt: 'expiredAt',
  uri: 'contentURI',
  perTransaction: 'txLimit',
  perDay: 'dailyLimit',
  allowlist: 'whitelist',
});

function cardzeroError(error: unknown): CardzeroError {
  if (!(error instanceof AppError)) {
    return { status: 500, error: 'INTERNAL', message: 'An internal error occurred.' };
  }
  const { code, message } = error;
  if (code === 'invalidAmount' || code === 'invalidInput') return wrongField(error);
  const known = codes[code];
  const { http } = errorKind(code);
  return known
    ? { status: known[1], error: known[0], message }
    : { status: http, error: http === 500 ? 'INTERNAL' : upperCase(code), message };
}

/** `methodNotAllowed` becomes `METHOD_NOT_ALLOWED`. */
const upperCase = (code: string): string => code.replace(/[A-Z]/g, (c) => `_${c}`).toUpperCase();

function wrongField({ message, data }: AppError): CardzeroError {
  const issues = (data?.issues as { path: string; message: string }[] | undefined) ?? [];
  const field = (data?.field as string | undefined) ?? fieldOf(issues[0]?.path ?? '');
  const details = issues.map((issue) => `${theirPath(issue.path)}: ${issue.message}`).join('; ');
  return {
    status: 400,
    error: fieldCodes[field] ?? 'INVALID_REQUEST',
    message: details || message.replace(field, fieldNames[field] ?? field),
  };
}

/** The path as CardZero callers know it: there, limits are not nested. */
const partsOf = (path: string): string[] => path.split('.').filter((part) => part !== 'limits');
const fieldOf = (path: string): string => partsOf(path)[0] ?? '';

function theirPath(path: string): string {
  const [first = 'body', ...rest] = partsOf(path);
  return [fieldNames[first] ?? first, ...rest].join('.');
}

export const invalid = (code: string, message: string): CardzeroFault =>
  new CardzeroFault({ status: 400, error: code, message });

/** An error that exists only in CardZero's rules. */
export class CardzeroFault extends Error {
  readonly fault: CardzeroError;
  constructor(fault: CardzeroError) {
    super(fault.message);
    this.fault = fault;
  }
}

export const faultOf = (error: unknown): CardzeroError =>
  error instanceof CardzeroFault ? error.fault : cardzeroError(error);

/** Errors of paths and requests that match no route. */
export function unroutedFault(error: unknown): CardzeroError {
  const fault = faultOf(error);
  return fault.error === 'JOB_NOT_FOUND' ? { ...fault, error: 'NOT_FOUND' } : fault;
}
