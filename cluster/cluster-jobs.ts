/**
 * Sends jobs of other members to the minions of this member, and forwards the returns of these
 * minions.
 */

import { randomBytes } from 'node:crypto';
import Type from 'typebox';
import { type Cluster, type ClusterMember, Job, returnRow } from '#master';
import {
  isWireMap,
  localField,
  type PublicationLoad,
  unpackLocal,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { type Change, defineRow, type Key, type Operation, type RowOf } from '#store';

type SharedPublication = Parameters<OtherMembers['share']>[0];

type OtherMembers = ReturnType<ClusterMember['jobs']['open']>;

type JobsOfMembersDeps = Parameters<ClusterMember['jobs']['open']>[0];

const publishingPrefix: Key = ['publishing'];
/**
 * Maximum age of a job of another member, in milliseconds. A member that was disconnected reads
 * older jobs in the log, and does not send them to its minions.
 */
const publishedWithinMs = 15_000;
const rowLifeMs = 60_000;
/**
 * Time for which this member forwards the returns of a job that is not stored, in milliseconds from
 * the publication of the job.
 */
const passedOnMs = 60_000;

export interface ClusterJobsDeps extends JobsOfMembersDeps {
  readonly cluster: Cluster;
}

/**
 * Schema of the rows `publishing/<jid>/<random>`. A row requests that the other members also send a
 * job to their minions.
 */
const noticeRow = defineRow({
  name: 'publication',
  schema: Type.Object({
    /** Name of the member on which the job was created. */
    by: Type.String(),
    /**
     * Time at which the member in `by` published the job, on its own clock, in milliseconds since
     * 1970.
     */
    at: Type.Number(),
    serial: Type.Number(),
    load: Type.Unsafe<PublicationLoad>(
      Type.Object({ jid: Type.String(), arg: Type.Array(Type.Unknown()) }),
    ),
    isByIds: Type.Boolean(),
  }),
  packed: { load: localField },
  unversioned: unpackLocal,
});

/**
 * Name that takes turns with the requesters of this member when jobs are published. The members
 * that sent these jobs have already given turns to their own requesters.
 */
const ownerOfOthers = 'cluster';

/**
 * Exchanges jobs with the other members. The other members receive a stored job through the
 * replicated log, in the write that stores the job. All members therefore publish stored jobs in
 * the same order, and never before the jobs are stored. Jobs that are not stored are sent as
 * messages outside the log.
 */
export class ClusterJobs implements OtherMembers {
  readonly #deps: ClusterJobsDeps;
  #last: Promise<void> = Promise.resolve();

  constructor(deps: ClusterJobsDeps) {
    this.#deps = deps;
    const { cluster, cache, log } = deps;
    cluster.follow(publishingPrefix, (change) => {
      if (change.type === 'delete') return;
      const { entry } = change;
      this.#last = this.#last
        .then(() => this.#publish(noticeRow.decode(entry)))
        .catch((error: unknown) => {
          log.error(
            { jid: entry.key[1], err: error },
            "cannot publish another cluster member's job to the minions of this member",
          );
        });
    });
    cluster.follow(['returns'], (change) => this.#noteReturn(change));
    cluster.follow(['jobs'], (change) => {
      if (change.type === 'put') cache.noteExtended(change.entry);
    });
    cluster.onMessage('publish', (value) => this.#publishUnstored(value));
    cluster.onMessage('return', ({ jid, result }) => {
      if (typeof jid !== 'string' || !(result instanceof Uint8Array)) return;
      const key = ['returns', jid];
      cache.remembered(jid)?.answer(returnRow.decode({ key, value: result }));
    });
  }

  /**
   * Returns the operations that make the other members publish a job. The caller adds the
   * operations to the write that stores the job.
   */
  share({ load, serial, isByIds }: SharedPublication): Operation[] {
    const { cluster, now } = this.#deps;
    const value = noticeRow.encode({ by: cluster.member, at: now(), serial, load, isByIds });
    const key = [...publishingPrefix, load.jid, randomBytes(6).toString('hex')];
    return [{ op: 'put', key, value, expiresAt: now() + rowLifeMs }];
  }

  /**
   * Sends a job that is not stored to the other members. Each of them publishes the job, and
   * forwards the returns that it receives from minions.
   */
  shareUnstored(load: PublicationLoad, minions: readonly string[]): void {
    this.#deps.cluster.send('publish', { load, minions: [...minions] });
  }

  async #publish({ by, at, serial, load, isByIds }: RowOf<typeof noticeRow>): Promise<void> {
    const { cluster, cache, publisher, publishKey, addresseesOf, now, log } = this.#deps;
    if (by === cluster.member) return;
    publishKey.observe(serial);
    const clock = cluster.status().members.find(({ name }) => name === by)?.clockSkewMs ?? 0;
    if (now() + clock - at > publishedWithinMs) {
      log.warn(
        { jid: load.jid, member: by },
        `did not publish another cluster member's job to the minions of this member: the job arrived more than ${publishedWithinMs / 1000} s after it was sent; run the job again for these minions`,
      );
      return;
    }
    const record = isByIds ? await cache.record(load.jid) : undefined;
    const listed = Array.isArray(load.tgt) ? load.tgt : undefined;
    const to = addresseesOf(listed ?? record?.minions ?? null);
    await publisher.publish(load, to, ownerOfOthers);
  }

  #publishUnstored({ load, minions }: WireMap): void {
    const { cluster, cache, publisher, addresseesOf, now, log } = this.#deps;
    if (!isLoad(load) || !isTexts(minions)) return;
    const { jid, fun } = load;
    const job = new Job({ jid, fun, minions, publishedAt: now() }, { isKept: false });
    const stopListening = job.onReturn((result) => {
      cluster.send('return', { jid, result: returnRow.encode(result) });
    });
    setTimeout(stopListening, passedOnMs).unref();
    cache.remember(job);
    publisher.publish(load, addresseesOf(minions), ownerOfOthers).catch((error: unknown) => {
      log.error(
        { jid, err: error },
        "cannot publish another cluster member's job to the minions of this member",
      );
    });
  }

  /**
   * Handles a return that another member has stored. If this member has the job in memory, adds the
   * return to the job. Callers on this member that wait for the job then receive the return.
   */
  #noteReturn(change: Change): void {
    if (change.type === 'delete') return;
    const { cache } = this.#deps;
    const [, jid = '', minion = ''] = change.entry.key;
    const job = cache.remembered(jid);
    if (job === undefined || cache.isTaking(jid, minion)) return;
    job.answer(returnRow.decode(change.entry));
  }
}

function isTexts(value: WireValue | undefined): value is string[] {
  return Array.isArray(value) && value.every((it) => typeof it === 'string');
}

/**
 * Whether a value from another member is a job to publish. Checks only a few fields, because a
 * member of the same version created the value.
 */
function isLoad(value: WireValue | undefined): value is PublicationLoad {
  return isWireMap(value) && typeof value.jid === 'string' && Array.isArray(value.arg);
}
