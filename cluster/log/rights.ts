/**
 * Checks that the NATS user of a member has all rights that a member needs. Reports dangerous
 * rights that no member needs.
 */

import { setImmediate as turn } from 'node:timers/promises';
import type { MsgHdrs, NatsConnection } from '@nats-io/transport-node';
import { StoreError } from '#store';

type Transport = typeof import('@nats-io/transport-node');

/** Properties of a member that determine which rights it requires. */
export interface RightsOptions {
  /** Name of the JetStream stream that contains the log. */
  readonly stream: string;
  /**
   * Common prefix of the NATS subjects of this cluster's log. The suffixes are `.log` and
   * `.members`.
   */
  readonly subject: string;
  /** Whether the member creates the stream if the stream does not exist. */
  readonly isFounding: boolean;
}

/**
 * Name in requests that only test rights. No consumer or stream has it, so the requests have no
 * effect.
 */
const unusedName = 'saltbridge_rights_check';
/**
 * Payload that the server always rejects, because the names in it denote nothing that exists. It is
 * used to test rights without any effect. The payload must be a JSON object with properties. From
 * version 2.11 on, nats-server treats any other payload as a request without conditions, so a purge
 * would delete everything.
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

/**
 * Maximum number of rejections that are recorded. It is higher than the number of requests that are
 * sent at the same time.
 */
const maxRefusals = 100;

/**
 * Checks that the NATS user has the rights that a member needs, with requests that change nothing.
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
      `the NATS user of this member lacks the right to ${missing.join(', ')}; docs/cluster.md lists all required rights`,
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
  // The header names a stream that does not exist, so that the log does not store the message.
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

/** Collects the rejections that the server sends for a group of NATS subjects. */
class Refusals {
  readonly #connection: NatsConnection;
  readonly #refused = new Set<string>();

  constructor(connection: NatsConnection) {
    this.#connection = connection;
    void this.#watch();
  }

  /** Publishes each probe, and returns the subjects to which the user may not publish. */
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
   * Returns the subjects that the server has rejected. First waits for the reply to a flush,
   * because the server sends all rejections before this reply. Then waits for the next turn of the
   * event loop, in which the client library reports the rejections.
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
