/** What a member's user may do at the NATS servers: all that it needs, and little else. */

import { setImmediate as turn } from 'node:timers/promises';
import type { MsgHdrs, NatsConnection } from '@nats-io/transport-node';
import { StoreError } from '#store';

type Transport = typeof import('@nats-io/transport-node');

/** Whose rights are looked at. */
export interface RightsOptions {
  /** Its log. */
  readonly stream: string;
  /** What the subjects of its own begin with. */
  readonly subject: string;
  /** It makes the stream. */
  readonly isFounding: boolean;
}

/** A consumer and a stream that nobody has. */
const nobody = 'saltbridge_rights_check';
/**
 * A server that reads it refuses it, and what it names is not there: for nats-server 2.11 and later a
 * request that is no object asks for nothing in particular, and a purge by it is one of all.
 */
const unreadable = JSON.stringify({
  name: nobody,
  stream_name: nobody,
  filter: nobody,
  seq: nobody,
  config: nobody,
});

interface Probe {
  readonly subject: string;
  readonly payload: string;
  readonly headers?: MsgHdrs;
}

/** Of more than are asked for at once none is kept. */
const maxRefusals = 100;

/**
 * Tries what a member does, in ways that change nothing.
 * @returns what its user may do besides, and no member needs
 * @throws StoreError ERR_CLUSTER_RIGHTS naming what is missing
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
      `the NATS user of this member may not ${missing.join(', not ')}; docs/cluster.md lists what it needs`,
    );
  }
  const others = ['PURGE', 'DELETE'].map((verb) => `$JS.API.STREAM.${verb}.${nobody}`);
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
  // So that the log takes nothing.
  const elsewhere = headers();
  elsewhere.set('Nats-Expected-Stream', nobody);
  const requests = [
    `STREAM.INFO.${stream}`,
    `STREAM.MSG.GET.${stream}`,
    `STREAM.PURGE.${stream}`,
    `CONSUMER.CREATE.${stream}.${nobody}`,
    `CONSUMER.DELETE.${stream}.${nobody}`,
    `CONSUMER.INFO.${stream}.${nobody}`,
    `CONSUMER.MSG.NEXT.${stream}.${nobody}`,
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

/** What a server refuses, of what is tried one after the other. */
class Refusals {
  readonly #connection: NatsConnection;
  readonly #refused = new Set<string>();

  constructor(connection: NatsConnection) {
    this.#connection = connection;
    void this.#watch();
  }

  /** Of messages to these subjects, the subjects that were refused. */
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

  /** A refusal comes before the answer to a flush, and is told in a turn of its own. */
  async #settled(subjects: readonly string[]): Promise<readonly string[]> {
    await this.#connection.flush();
    await turn();
    const refused = subjects.filter((it) => this.#refused.has(it));
    this.#refused.clear();
    return refused;
  }

  /** It ends with the connection. */
  async #watch(): Promise<void> {
    for await (const status of this.#connection.status()) {
      if (status.type !== 'error' || this.#refused.size >= maxRefusals) continue;
      const { error } = status;
      if ('subject' in error && typeof error.subject === 'string') this.#refused.add(error.subject);
    }
  }
}
