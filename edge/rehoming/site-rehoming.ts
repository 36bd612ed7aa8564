/**
 * Changes the centre of a site. The site stores the latest statement of its centre. If the centre
 * is unreachable for as long as the statement says, the site tries the next centre. It changes its
 * identity only after the next centre has accepted it.
 */

import type { KeyObject } from 'node:crypto';
import Type from 'typebox';
import type { ExtensionHost } from '#master';
import { retryDelayMs, sleepUntilAborted } from '#runtime';
import { defineRow } from '#store';
import { type BundleInUse, bundleInUse } from '../bundles/site-bundles.ts';
import { EdgeError } from '../errors.ts';
import { postJson, refusalOf } from '../identity/post-json.ts';
import type { RehomedSite, SiteIdentity } from '../identity/site-identity.ts';
import { type CentreEndpoint, configuredCa, endpointsOf } from '../link/centre-endpoint.ts';
import { edgeAddress } from '../link/edge-address.ts';
import { RetryDelay } from '../link/retry-delay.ts';
import { probeCentre } from '../link/site-handshake.ts';
import { CentreClock } from '../orders/centre-clock.ts';
import { validOfflineOf } from '../orders/valid-offline.ts';
import type { EdgePart, SiteContext } from '../parts.ts';
import { nextTrust, withNextCentre, withStatement } from './change-centre.ts';
import { giveStatement, siteLeft } from './rehoming-messages.ts';
import { readStatement, type Statement, verifyStatement } from './statement.ts';

/** Longest time between two checks of whether the site must change its centre, in milliseconds. */
const checkMs = 60_000;

/**
 * Maximum time that the site waits for its former centre to confirm the change over the open
 * connection, in milliseconds.
 */
const leaveMs = 5000;

const announcedRow = defineRow({
  name: 'announced change of the centre',
  schema: Type.Object({ issuedAt: Type.Integer({ minimum: 0 }) }),
});
const announcedKey = ['rehoming', 'announced'];
const confirmedKey = ['rehoming', 'confirmed'];

/**
 * Initial and maximum delay before the site repeats its notification to the former centre, in
 * milliseconds.
 */
const leaveDelays = { initialDelayMs: 1000, maxDelayMs: 600_000 };

/** Part of the extension `site` that changes the centre of the site. */
export async function openSiteRehoming(context: SiteContext): Promise<EdgePart> {
  const clock = await CentreClock.open({
    ...context,
    validOfflineSeconds: () => validOfflineOf(context),
  });
  const rehoming = new SiteRehoming(context, clock);
  context.link.handle(giveStatement, ({ statement }) => rehoming.receive(statement));
  return { start: () => rehoming.start(), close: () => rehoming.close() };
}

class SiteRehoming {
  readonly #context: SiteContext;
  readonly #host: ExtensionHost;
  readonly #clock: CentreClock;
  readonly #bundle: BundleInUse;
  readonly #stopped = new AbortController();
  #wake = new AbortController();
  #running: Promise<void> | undefined;
  /** Problem that was logged last. */
  #problem: string | undefined;

  constructor(context: SiteContext, clock: CentreClock) {
    this.#context = context;
    this.#host = context.host;
    this.#clock = clock;
    this.#bundle = context.host.use(bundleInUse);
    context.link.onChange(() => this.#notify());
  }

  async start(): Promise<void> {
    await this.#announce();
    this.#running = Promise.all([this.#run(), this.#notifyFormer()]).then(() => {});
  }

  async close(): Promise<void> {
    this.#stopped.abort();
    await this.#running;
  }

  /**
   * Verifies and stores a statement about the next centre. First reads the latest root metadata of
   * the present centre, because new root keys may have signed the statement.
   * @throws EdgeError ERR_SITE_NOT_JOINED and the errors of `verifyStatement`
   */
  async receive(text: string): Promise<{ state: 'held' | 'used' }> {
    const identity = this.#requireIdentity();
    const { issuedAt } = readStatement(text).statement;
    if (identity.rehomed?.issuedAt === issuedAt) return { state: 'used' };
    if (identity.statement === text) return { state: 'held' };
    try {
      const root = await this.#bundle.trustedRoot({ isUpdated: true });
      const statement = await this.#verify(identity, text, root);
      await this.#context.changeIdentity((now) =>
        now.statementFloor === identity.statementFloor ? withStatement(now, text, statement) : now,
      );
      this.#audit('site.statement', statement, 'done');
    } catch (error) {
      this.#host.logger.warn(
        { err: error },
        'rejected a statement that names another centre for this site',
      );
      throw error;
    }
    this.#notify();
    return { state: 'held' };
  }

  #notify(): void {
    this.#wake.abort();
    this.#wake = new AbortController();
  }

  async #run(): Promise<void> {
    const { signal: stopped } = this.#stopped;
    const { closing } = this.#host;
    const delay = new RetryDelay();
    while (!stopped.aborted && !closing.aborted) {
      const wake = this.#wake.signal;
      let waitMs = checkMs;
      try {
        waitMs = await this.#tryChange();
        delay.reset();
      } catch (error) {
        delay.fail(false, error);
        waitMs = delay.maxMs * Math.random();
        this.#logOnce(error);
      }
      await sleepUntilAborted(waitMs, wake, stopped, closing);
    }
  }

  /**
   * Changes to the next centre if the present centre has been unreachable for the period that the
   * statement about the change defines.
   * @returns delay until the next call, in milliseconds
   */
  async #tryChange(): Promise<number> {
    const identity = this.#context.identity();
    const text = identity?.statement;
    if (identity === undefined || text === undefined) return checkMs;
    const { statement } = readStatement(text);
    const waitMs = this.#waitMs(identity, statement);
    if (waitMs > 0) return Math.min(waitMs, checkMs);
    // Verify it again, because it may have expired, or a new root may have replaced the keys.
    const root = await this.#bundle.trustedRoot({ isUpdated: false });
    await this.#verify(identity, text, root);
    if (root === undefined) return checkMs;
    const key = await this.#findKey(identity, statement);
    const trust = await nextTrust(root, statement);
    const change = {
      statement,
      trust,
      key,
      configured: this.#context.options.centre,
      former: await endpointsOf(identity, this.#context.options),
      now: this.#host.now(),
    };
    // The centre may have replaced the statement meanwhile.
    const changed = await this.#context.changeIdentity((now) =>
      now.statement === text ? withNextCentre(now, change) : now,
    );
    if (changed.rehomed?.issuedAt !== statement.issuedAt) return 0;
    this.#problem = undefined;
    this.#audit('site.rehome', statement, 'done');
    if (await this.#leave(statement)) await this.#noteConfirmed(statement.issuedAt);
    this.#context.link.reconnect();
    await this.#announce();
    return checkMs;
  }

  /** Returns the time until the site may try the next centre, in milliseconds. */
  #waitMs({ joinedAt, rehomed }: SiteIdentity, { afterSeconds }: Statement): number {
    const afterMs = afterSeconds * 1000;
    if (afterMs === 0) return 0;
    const since = rehomed?.at ?? joinedAt;
    const awayMs = this.#clock.awayMs ?? Math.max(0, this.#host.now() - since);
    return Math.max(0, afterMs - awayMs);
  }

  /**
   * Returns the key with which the next centre accepts the site: the present key or a former one.
   * @throws EdgeError ERR_SITE_LINK, ERR_SITE_REFUSED if the centre accepts none of the keys at any
   * of its addresses
   */
  async #findKey(identity: SiteIdentity, { to }: Statement): Promise<KeyObject> {
    const { name, key, formerKeys } = identity;
    const centreKey = Buffer.from(to.key, 'base64url');
    const ca = to.ca ?? (await configuredCa(this.#context.options));
    let failure: unknown;
    for (const centre of to.addresses) {
      const endpoint: CentreEndpoint = { centre, ca, behindProxy: to.behindProxy };
      try {
        for (const each of [key, ...formerKeys]) {
          const caller = { name, key: each, centreKey };
          const { now } = this.#host;
          if (await probeCentre(endpoint, caller, now, this.#stopped.signal)) return each;
        }
        const problem = `${centre} refused this site: import the site there`;
        failure = new EdgeError('ERR_SITE_REFUSED', problem);
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  /**
   * Notifies the former centre that the site moves to another centre, if the connection to the
   * former centre is open. Returns whether the former centre has confirmed.
   */
  async #leave({ issuedAt }: Statement): Promise<boolean> {
    const { link } = this.#context;
    if (!link.state.isConnected) return false;
    const signal = AbortSignal.any([AbortSignal.timeout(leaveMs), this.#stopped.signal]);
    try {
      await link.call(siteLeft, { issuedAt }, signal);
      return true;
    } catch (err) {
      this.#host.logger.info(
        { err },
        'the former centre did not confirm that this site has moved to another centre',
      );
      return false;
    }
  }

  /**
   * Notifies the former centre if it was unreachable during the change. Repeats the notification
   * until the former centre has confirmed or refused it.
   */
  async #notifyFormer(): Promise<void> {
    const { closing } = this.#host;
    for (let attempt = 1; !this.#stopped.signal.aborted && !closing.aborted; ) {
      const wake = this.#wake.signal;
      const rehomed = this.#context.identity()?.rehomed;
      let waitMs = checkMs;
      const isOpen = rehomed?.leave !== undefined && !(await this.#isConfirmed(rehomed.issuedAt));
      if (rehomed !== undefined && isOpen) {
        try {
          await this.#sendLeave(rehomed);
          await this.#noteConfirmed(rehomed.issuedAt);
          attempt = 1;
        } catch (err) {
          this.#host.logger.debug({ err }, 'cannot notify the former centre of the change yet');
          waitMs = retryDelayMs(attempt, leaveDelays, Math.random);
          attempt += 1;
        }
      }
      await sleepUntilAborted(waitMs, wake, this.#stopped.signal, closing);
    }
  }

  /**
   * Sends the notification to the former centre, at the first of its addresses that answers.
   * @throws EdgeError ERR_SITE_LINK if no address answers
   */
  async #sendLeave({ issuedAt, leave }: RehomedSite): Promise<void> {
    const { name } = this.#context.options;
    let failure: unknown;
    for (const address of leave?.addresses ?? []) {
      const url = `${edgeAddress(address)}/left`;
      const body = { name, issuedAt, signature: leave?.signature ?? '' };
      try {
        const { status, value } = await postJson(url, body, leave?.ca, {
          signal: this.#stopped.signal,
        });
        if (status === 200) return;
        const refusal = refusalOf(url, status, value);
        if (refusal.code === 'ERR_SITE_LINK') throw refusal;
        this.#host.logger.warn(
          { err: refusal },
          'the former centre refused the notification that this site has moved to another centre',
        );
        return;
      } catch (error) {
        failure = error;
      }
    }
    if (failure !== undefined) throw failure;
  }

  async #isConfirmed(issuedAt: number): Promise<boolean> {
    const entry = await this.#host.state.get(confirmedKey);
    return entry !== undefined && announcedRow.decode(entry).issuedAt === issuedAt;
  }

  async #noteConfirmed(issuedAt: number): Promise<void> {
    const value = announcedRow.encode({ issuedAt });
    await this.#host.state.write([{ op: 'put', key: confirmedKey, value }]);
  }

  /**
   * Reports the change and the state of the site to the new centre. After a crash, the site may
   * send the report twice, but never omits it.
   */
  async #announce(): Promise<void> {
    const { host, log, identity, announce } = this.#context;
    const rehomed = identity()?.rehomed;
    if (rehomed === undefined) return;
    const { issuedAt, at, from } = rehomed;
    const entry = await host.state.get(announcedKey);
    if (entry !== undefined && announcedRow.decode(entry).issuedAt === issuedAt) return;
    const data = { from, issuedAt, at };
    host.fire('rehomed', data);
    host.logger.warn(data, 'this site now belongs to another centre');
    await log.append({ class: 'alarm', kind: 'event', value: { tag: 'rehomed', data } });
    await announce();
    const value = announcedRow.encode({ issuedAt });
    await host.state.write([{ op: 'put', key: announcedKey, value }]);
  }

  #verify(
    { name, statement: known, statementFloor: floor }: SiteIdentity,
    text: string,
    root: Uint8Array | undefined,
  ): Promise<Statement> {
    if (root === undefined) {
      const problem =
        'this site has no trusted root: its centre had no release keys when it joined';
      throw new EdgeError('ERR_REHOME_KEYS', problem);
    }
    const now = Math.max(this.#host.now(), this.#context.timeFloor());
    const correctedAt = this.#context.timeCorrectedAt();
    return verifyStatement(text, { root, now, site: name, known, floor, correctedAt });
  }

  #requireIdentity(): SiteIdentity {
    const identity = this.#context.identity();
    if (identity !== undefined) return identity;
    throw new EdgeError('ERR_SITE_NOT_JOINED', 'this site has not joined a centre');
  }

  #audit(action: string, { centre, to }: Statement, outcome: 'done'): void {
    const who = { kind: 'service', name: `site ${this.#context.options.name}` } as const;
    this.#host.audit.append({ who, action, what: `${centre} to ${to.id}`, outcome });
  }

  #logOnce(error: unknown): void {
    const problem = error instanceof Error ? error.message : String(error);
    if (problem === this.#problem) return;
    this.#problem = problem;
    this.#host.logger.warn({ err: error }, 'cannot move this site to its next centre; retrying');
  }
}
