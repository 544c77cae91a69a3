// Wallets: who owns them, what they may spend, freezing, and internal credit that an operator mints explicitly.
import { hash } from 'node:crypto';
import type { Access, NewKey } from '../../access/access.ts';
import { shared } from '../../access/granting.ts';
import { AppError } from '../../errors.ts';
import { randomId } from '../../jobs/job.ts';
import type { Caller } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import { formatUnits, supplyMicroMax } from './money.ts';
import { noPolicy, type Policy, type Wallet } from './rows.ts';
import { genesis, worldAccount } from './settlement/ledger/book.ts';
import { transferSteps } from './settlement/ledger/store.ts';
import type { EscrowSettings } from './settings.ts';
import type { EscrowStore } from './store.ts';

const conflictsMax = 100;
const walletsShownMax = 100;
/** So long a claim whose answer was lost can be repeated. */
const claimAgainMs = 600_000;

/** A settlement that needs signing keys makes an address with its encrypted key; else an address is derived. */
export type MakeAddress = () => Promise<{ address: string; secret: string }>;

export class Wallets {
  private readonly store: EscrowStore;
  private readonly clock: Clock;
  private readonly makeAddress: MakeAddress | undefined;

  constructor(store: EscrowStore, clock: Clock, makeAddress?: MakeAddress) {
    this.store = store;
    this.clock = clock;
    this.makeAddress = makeAddress;
  }

  /** A wallet of nobody, for whoever brings the claim key. */
  async open(name: string | null): Promise<{ wallet: Wallet; claimKey: string }> {
    const claimKey = randomId('czk_', 32);
    const wallet = await this.create(claimOwner(claimKey), name, {}, 'pending');
    return { wallet, claimKey };
  }

  /** Owner, first key and the memory of the claim are one commit; whoever lost the answer claims again. */
  async claim(
    claimKey: string,
    caller: Caller,
    { access, settings }: { access: Access; settings: EscrowSettings },
  ): Promise<{ wallet: Wallet; key: string }> {
    const { owner } = caller;
    const name = claimOwner(claimKey);
    const now = this.clock.now();
    const [wallet] = await this.store.walletsOf(name, 1);
    if (!wallet) return this.claimAgain(name, caller, access);
    if (now - wallet.createdAt > settings.claimMsMax) throw claimKeyInvalid();
    const after: Wallet = { ...wallet, owner, status: 'active' };
    const made = access.plan(keyWish(after, caller), caller);
    const entry = { key: name, body: owner, ref: wallet.id, until: now + claimAgainMs };
    const { applied } = await this.store.store.commit([
      this.store.updateWallet(wallet, after),
      this.store.rememberKey(entry, now),
      ...made.steps,
    ]);
    if (!applied) return this.claimAgain(name, caller, access);
    return { wallet: { ...after, version: wallet.version + 1 }, key: made.key };
  }

  private async claimAgain(name: string, caller: Caller, access: Access) {
    const known = await this.store.remembered(name, this.clock.now());
    if (!known || known.body !== caller.owner) throw claimKeyInvalid();
    const wallet = await this.store.wallet(known.ref);
    const roles = ['client', 'provider', 'evaluator'] as const;
    const works = await Promise.all(
      roles.map((role) => this.store.works.countWork(wallet.id, role)),
    );
    if (wallet.seq > 0 || works.some((count) => count > 0)) throw claimKeyInvalid();
    return { wallet, key: await this.newKey(access, wallet, caller, true) };
  }

  async create(
    owner: string,
    name: string | null,
    policy: Partial<Policy> = {},
    status: Wallet['status'] = 'active',
  ): Promise<Wallet> {
    const id = randomId('wal_');
    const made = await this.makeAddress?.();
    const wallet: Wallet = {
      id,
      kind: 'wallet',
      balance: 0,
      version: 1,
      seq: 0,
      head: genesis(id),
      owner,
      name,
      status,
      address: made?.address.toLowerCase() ?? `0x${hash('sha256', id).slice(0, 40)}`,
      policy: { ...noPolicy, ...policy },
      day: null,
      spent: 0,
      createdAt: this.clock.now(),
      secret: made?.secret ?? null,
    };
    await this.store.store.commit([this.store.insertWallet(wallet)]);
    return wallet;
  }

  async refuseTooMany(owner: string, { walletsMax }: EscrowSettings): Promise<void> {
    if ((await this.store.countWallets(owner)) < walletsMax) return;
    throw new AppError('limitExceeded', `You have ${walletsMax} wallets already.`, {
      hint: 'Use one of them; the setting `escrow.walletsMax` is the limit.',
    });
  }

  /** Wallets of nobody that nobody claimed in time make room for new ones. */
  async refuseTooManyUnclaimed({ claimMsMax, unclaimedMax }: EscrowSettings): Promise<void> {
    if ((await this.store.countUnclaimed()) < unclaimedMax) return;
    await this.store.store.commit([this.store.forgetUnclaimed(this.clock.now() - claimMsMax)]);
    if ((await this.store.countUnclaimed()) < unclaimedMax) return;
    throw new AppError('limitExceeded', `${unclaimedMax} wallets wait for an owner already.`, {
      hint: 'Try again later; the setting `escrow.unclaimedMax` is the limit.',
    });
  }

  /** The wallet that a caller acts for: the one its key is bound to, the one it names, or its only one. */
  async actingFor(caller: Caller, named?: string): Promise<Wallet> {
    const bound = boundWallet(caller);
    if (bound !== undefined) {
      const wallet = await this.store.wallet(bound);
      if (named !== undefined && named !== wallet.id && named.toLowerCase() !== wallet.address) {
        throw new AppError('forbidden', `This key belongs to the wallet ${wallet.id}.`, {
          hint: 'Leave the field wallet out, or use the key of the other wallet.',
        });
      }
      return wallet;
    }
    if (named !== undefined) return this.owned(caller, named);
    const wallets = await this.store.walletsOf(caller.owner, 2);
    if (wallets.length === 1) return wallets[0]!;
    throw new AppError(
      'walletRequired',
      wallets.length === 0 ? 'You have no wallet yet.' : 'You have several wallets: name one.',
      {
        hint:
          wallets.length === 0
            ? 'create_wallet makes one.'
            : 'Set the field wallet (get_wallet lists them).',
      },
    );
  }

  /** The same for a caller that needs only the id: a bound key says it without a look at the wallet. */
  async actingId(caller: Caller, named?: string): Promise<string> {
    const bound = boundWallet(caller);
    if (bound !== undefined && (named === undefined || named === bound)) return bound;
    return (await this.actingFor(caller, named)).id;
  }

  /** For reads: whose eyes these are, where that is clear; nobody in particular otherwise. */
  async reading(caller: Caller, named?: string): Promise<Wallet | undefined> {
    if (named !== undefined || caller.subject?.startsWith('wallet:')) {
      return this.actingFor(caller, named);
    }
    const wallets = await this.store.walletsOf(caller.owner, 2);
    return wallets.length === 1 ? wallets[0] : undefined;
  }

  /** Another owner's wallet looks unknown. */
  async owned(caller: Caller, named: string): Promise<Wallet> {
    const wallet = await this.store.findWallet(named);
    const bound = boundWallet(caller);
    const mine =
      wallet && (bound ? bound === wallet.id : caller.admin || wallet.owner === caller.owner);
    if (!wallet || !mine) {
      throw new AppError('walletNotFound', `You have no wallet ${named}.`, {
        hint: 'get_wallet without a wallet lists yours.',
      });
    }
    return wallet;
  }

  async list(caller: Caller): Promise<Wallet[]> {
    if (caller.subject?.startsWith('wallet:')) {
      return [await this.store.wallet(caller.subject.slice(7))];
    }
    return this.store.walletsOf(caller.owner, walletsShownMax);
  }

  /** A key that acts for this wallet only; with `replace` the keys before it end. */
  async newKey(access: Access, wallet: Wallet, caller: Caller, replace = false): Promise<string> {
    const subject = `wallet:${wallet.id}`;
    const before = replace ? await access.list({ subject }) : [];
    const made = await access.create(keyWish(wallet, caller), caller);
    for (const { id, revokedAt } of before) if (revokedAt === null) await access.revoke(id);
    return made.key;
  }

  async update(
    id: string,
    change: { name?: string; status?: Wallet['status']; owner?: string; policy?: Partial<Policy> },
  ): Promise<Wallet> {
    for (let tries = 0; tries < conflictsMax; tries++) {
      const before = await this.store.wallet(id);
      const { policy, ...fields } = change;
      const after: Wallet = { ...before, ...fields, policy: { ...before.policy, ...policy } };
      const { applied } = await this.store.store.commit([this.store.updateWallet(before, after)]);
      if (applied) return { ...after, version: before.version + 1 };
    }
    throw new AppError('unavailable', 'The wallet changed too often at once.', {
      hint: 'Try again.',
    });
  }

  /** Test credit, made from nothing by the operator. The caller's id makes it happen once for this wallet. */
  async mint(walletId: string, amount: number, transferId: string): Promise<Wallet> {
    const wallet = await this.store.wallet(walletId);
    const id = `mint/${wallet.id}/${transferId}`;
    // Servers before this one shared one list of ids among all wallets; a retry of such a mint still counts once.
    const [old] = await this.store.transfer(`mint:${transferId}`);
    for (let tries = 0; tries < conflictsMax; tries++) {
      const [own] = await this.store.transfer(id);
      const before = own ?? (old?.credit === wallet.id ? old : undefined);
      if (before) {
        if (before.amount === amount) return this.store.wallet(wallet.id);
        throw new AppError(
          'idempotencyConflict',
          `The mint ${transferId} gave this wallet another amount.`,
          {
            hint: 'Use a new id for new credit.',
          },
        );
      }
      const source = (await this.store.account(worldAccount))!;
      if (source.balance - amount < -supplyMicroMax) {
        throw new AppError(
          'supplyExceeded',
          `At most ${formatUnits(supplyMicroMax)} may be minted.`,
        );
      }
      const steps = transferSteps({
        id,
        source,
        lines: [{ credit: wallet.id, amount, kind: 'mint' }],
        at: this.clock.now(),
        floor: -supplyMicroMax,
      });
      if ((await this.store.store.commit(steps)).applied) return this.store.wallet(wallet.id);
    }
    throw new AppError('unavailable', 'Too much was minted at once.', { hint: 'Try again.' });
  }
}

const boundWallet = (caller: Caller): string | undefined =>
  caller.subject?.startsWith('wallet:') ? caller.subject.slice(7) : undefined;

/** No more than the key of who asks for it: its scopes, its end. */
const keyWish = (wallet: Wallet, caller: Caller): NewKey => ({
  owner: wallet.owner,
  name: wallet.name ?? wallet.id,
  scopes: shared(caller, ['read', 'run']),
  expiresAt: caller.expiresAt,
  kinds: ['escrow'],
  subject: `wallet:${wallet.id}`,
});

const claimKeyInvalid = (): AppError =>
  new AppError('claimKeyInvalid', 'This claim key is unknown, used or too old.', {
    hint: 'Open a new wallet; a claim key works once. Its owner gets a new key with update_wallet (rotateKey).',
  });

/** Until it is claimed a wallet belongs to whoever knows the key; only its hash is kept. */
const claimOwner = (claimKey: string): string => `claim:${hash('sha256', claimKey)}`;
