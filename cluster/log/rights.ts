/**
 * Checks the rights of a member's NATS user: all that it needs, and no dangerous ones beyond that.
 */

import { setImmediate as turn } from 'node:timers/promises';
import type { MsgHdrs, NatsConnection } from '@nats-io/transport-node';
import { StoreError } from '#store';

type Transport = typeof import('@nats-io/transport-node');

/** Names that determine the required rights. */
export interface RightsOptions {
  /** Stream of the log. */
  readonly stream: string;
  /** Prefix of the member's own subjects. */
  readonly subject: string;
  /** Whether the member creates the stream. */
  readonly isFounding: boolean;
}

/** Name of a consumer and a stream that do not exist. */
const unusedName = 'saltbridge_rights_check';
/**
 * A request that a server rejects and that names nothing that exists. It must be an object with
 * names: nats-server 2.11 and later treats any other payload as a request without conditions, so a
 * purge would delete everything.
 */
const unreadable = JSON.stringify({
  name: unusedName,
  stream_name: unusedName,
  filter: unusedName,
  seq: unusedName,
  config: unusedName,
});

interface Probe {
  readonly subject: string;
  readonly payload: string;
  readonly headers?: MsgHdrs;
}

/** Maximum number of recorded rejections, more than the number of simultaneous requests. */
const maxRefusals = 100;

/**
 * Tests the operations of a member in ways that change nothing.
 * @returns rights that the user has although no member needs them
 * @throws StoreError ERR_CLUSTER_RIGHTS naming the missing rights
 */
export async function checkRights(
  transport: Transport,
  connection: NatsConnection,
  options: RightsOptions,
): Promise<readonly string[]> {
  const refusals = new Refusals(connection);
  const { publish, subscribe } = needed(transport, options);
  const missing = [
    ...(await refusals.ofPublishing(publish)).map((it) => `publish to ${it}`),
    ...(await refusals.ofSubscribing(subscribe)).map((it) => `subscribe to ${it}`),
  ];
  if (missing.length > 0) {
    throw new StoreError(
      'ERR_CLUSTER_RIGHTS',
      `the NATS user of this member lacks the right to ${missing.join(', ')}; docs/cluster.md lists the rights that it needs`,
    );
  }
  const others = ['PURGE', 'DELETE'].map((verb) => `$JS.API.STREAM.${verb}.${unusedName}`);
  const refusedOthers = await refusals.ofPublishing(others.map(toRequest));
  const refusedAll = await refusals.ofSubscribing(['>']);
  return [
    ...(refusedAll.length === 0 ? ['subscribe to all subjects'] : []),
    ...(refusedOthers.length < others.length ? ['purge or delete other streams'] : []),
  ];
}

function needed(
  { headers, createInbox }: Transport,
  { stream, subject, isFounding }: RightsOptions,
): { readonly publish: readonly Probe[]; readonly subscribe: readonly string[] } {
  // A stream name that does not match, so that the log stores nothing.
  const elsewhere = headers();
  elsewhere.set('Nats-Expected-Stream', unusedName);
  const requests = [
    `STREAM.INFO.${stream}`,
    `STREAM.MSG.GET.${stream}`,
    `STREAM.PURGE.${stream}`,
    `CONSUMER.CREATE.${stream}.${unusedName}`,
    `CONSUMER.DELETE.${stream}.${unusedName}`,
    `CONSUMER.INFO.${stream}.${unusedName}`,
    `CONSUMER.MSG.NEXT.${stream}.${unusedName}`,
    ...(isFounding ? [`STREAM.CREATE.${stream}`] : []),
  ];
  return {
    publish: [
      { subject: `${subject}.log`, payload: '', headers: elsewhere },
      { subject: `${subject}.members`, payload: '' },
      ...requests.map((it) => toRequest(`$JS.API.${it}`)),
    ],
    subscribe: [`${subject}.members`, `${createInbox()}.*`],
  };
}

function toRequest(subject: string): Probe {
  return { subject, payload: unreadable };
}

/** Collects the server's rejections of one group of subjects at a time. */
class Refusals {
  readonly #connection: NatsConnection;
  readonly #refused = new Set<string>();

  constructor(connection: NatsConnection) {
    this.#connection = connection;
    void this.#watch();
  }

  /** Returns the subjects to which publishing was rejected. */
  async ofPublishing(probes: readonly Probe[]): Promise<readonly string[]> {
    for (const { subject, payload, headers } of probes) {
      this.#connection.publish(subject, payload, headers === undefined ? {} : { headers });
    }
    return this.#settled(probes.map(({ subject }) => subject));
  }

  async ofSubscribing(subjects: readonly string[]): Promise<readonly string[]> {
    const subscriptions = subjects.map((subject) =>
      this.#connection.subscribe(subject, { callback: () => {} }),
    );
    const refused = await this.#settled(subjects);
    for (const subscription of subscriptions) subscription.unsubscribe();
    return refused;
  }

  /**
   * Returns the subjects that the server has rejected. The server sends rejections before its reply
   * to a flush. The client reports them in the next turn of the event loop.
   */
  async #settled(subjects: readonly string[]): Promise<readonly string[]> {
    await this.#connection.flush();
    await turn();
    const refused = subjects.filter((it) => this.#refused.has(it));
    this.#refused.clear();
    return refused;
  }

  /** Records rejections until the connection ends. */
  async #watch(): Promise<void> {
    for await (const status of this.#connection.status()) {
      if (status.type !== 'error' || this.#refused.size >= maxRefusals) continue;
      const { error } = status;
      if ('subject' in error && typeof error.subject === 'string') this.#refused.add(error.subject);
    }
  }
}
