/** Opens signals with a store in memory and a short back-off. */
import type { ExecutionContext } from 'ava';
import type { SignalsModule } from '#heat-bridge';
import { openSignals } from '#heat-bridge/signals/open-signals.ts';
import type { SignalsApi } from '#heat-bridge/signals/signals-api.ts';
import {
  type AuditEntry,
  createSilentLogger,
  type Events,
  type KeyLifecycle,
  type SharedArea,
} from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import { createMemoryStore } from '#store';
import { within } from '../../helpers/deadline.ts';

type HeldKey = NonNullable<ReturnType<KeyLifecycle['keyOf']>>;

/** Event that was fired. */
interface Fired {
  readonly tag: string;
  readonly data: WireMap;
}

export interface SignalsUnderTest extends SignalsApi {
  readonly ofStacks: SignalsModule['ofStacks'];
  readonly unclaimedOf: SignalsModule['unclaimedOf'];
  /** Closes the signals, like a process that ends. */
  close(): Promise<void>;
  readonly fired: readonly Fired[];
  readonly audited: readonly AuditEntry[];
  /** Removes a machine. */
  dismiss(minion: string): Promise<void>;
  readonly discard: SignalsModule['discard'];
  /** Resolves when `count` events with this tag were fired. */
  told(tag: string, count?: number): Promise<readonly Fired[]>;
  /**
   * Sends a permitted event of a minion, which by default reports success. The nonce is new unless
   * one is given.
   */
  signal(
    minion: string,
    tag: string,
    data?: WireValue,
    nonce?: string,
  ): Promise<string | undefined>;
  /** Sends an event of a minion without data, fired by Salt's `event.send`. */
  send(minion: string, tag: string, published: WireMap): Promise<string | undefined>;
}

/** Creates a state area that still exists after the signals are closed. */
export function memoryState(now: () => number = Date.now): SharedArea {
  const store = createMemoryStore({ now });
  return {
    get: (key) => store.get(key),
    list: (prefix, options) => store.list(prefix, options),
    write: (operations) => store.write(operations),
    async follow(prefix, listener) {
      for await (const entry of this.list(prefix)) listener({ type: 'put', entry });
    },
    cluster: undefined,
    // Sealing hides a value from a search for the plain text.
    seal: (plain) => plain.map((byte) => byte ^ 0x5a),
    unseal: (sealed) => sealed.map((byte) => byte ^ 0x5a),
  };
}

export interface TestOptions {
  readonly state?: SharedArea;
  readonly now?: () => number;
  readonly section?: object;
  /** Returns the fingerprint of a minion's key. Default: the same for all minions. */
  readonly keyOf?: (minion: string) => string;
  /** Members of nodegroups and of projects. Default: none. */
  readonly nodegroups?: Readonly<Record<string, readonly string[]>>;
  readonly projects?: Readonly<Record<string, string>>;
  /** Event bus on which returns are fired. */
  readonly events?: Pick<Events['bus'], 'subscribe'>;
  /** Whether delivery is started. Default: true. */
  readonly isStarted?: boolean;
}

export async function openTestSignals(
  t: ExecutionContext,
  endpoints: readonly string[],
  {
    state = memoryState(),
    now = Date.now,
    section = {},
    keyOf = () => 'aa:bb',
    nodegroups = {},
    projects = {},
    isStarted = true,
    events,
  }: TestOptions = {},
): Promise<SignalsUnderTest> {
  const audited: AuditEntry[] = [];
  const heldKey = (minion: string): HeldKey => ({
    state: 'accepted',
    publicKey: '',
    fingerprint: keyOf(minion),
  });
  const fired: Fired[] = [];
  const waiting = new Set<() => void>();
  const closing = new AbortController();
  const signals = await openSignals(
    {
      shared: state,
      config: { publishSession: 86_400 },
      beforeReload: () => {},
      reloadable: () => ({
        nodegroups: Object.fromEntries(Object.keys(nodegroups).map((it) => [it, '*'])),
      }),
      isWithin: ([minion = ''], target) => nodegroups[target.slice(2)]?.includes(minion) === true,
      audit: { append: (entry) => audited.push(entry), digest: async () => '' },
      admission: { keyOf: heldKey },
      events,
      logger: createSilentLogger(),
      now,
      closing: closing.signal,
      fire: (tag, data) => {
        fired.push({ tag, data });
        for (const look of waiting) look();
      },
    },
    {
      endpoints: [...endpoints],
      retry_initial_delay: 0.01,
      retry_max_delay: 0.02,
      same_id_wait: 0,
      timeout: 5,
      ...section,
    },
    { projectOf: (minion) => projects[minion] },
  );
  if (isStarted) signals.start();
  const close = async (): Promise<void> => {
    closing.abort();
    await signals.close();
  };
  t.teardown(close);
  let nonce = 0;
  return {
    ...signals.api,
    ofStacks: signals.ofStacks,
    unclaimedOf: (minions) => signals.unclaimedOf(minions),
    close,
    fired,
    audited,
    dismiss: (minion) => signals.dismiss(minion),
    discard: (minions, reason) => signals.discard(minions, reason),
    told: (tag, count = 1) => {
      const told = new Promise<readonly Fired[]>((resolve) => {
        const look = (): void => {
          const found = fired.filter((it) => it.tag === tag);
          if (found.length < count) return;
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      });
      // The timer of a delivery that is tried again does not keep the process alive.
      return within(`${count} events ${tag}`, told);
    },
    send: (minion, tag, published) => {
      nonce += 1;
      const request = { mark: `nonce-${nonce}`, place: 0 };
      const body = { id: minion, data: { __pub_fun: 'event.send', ...published } };
      const event = { tag, sender: minion, data: {}, body, request, rule: 'r', jid: undefined };
      return signals.intake.take(event);
    },
    signal: async (minion, tag, data = { status: 'SUCCESS' }, mark = undefined) => {
      nonce += 1;
      const request = { mark: mark ?? `nonce-${nonce}`, place: 0 };
      const body = { id: minion, data };
      return signals.intake.take({
        tag,
        sender: minion,
        data,
        body,
        request,
        rule: 'r',
        jid: undefined,
      });
    },
  };
}
