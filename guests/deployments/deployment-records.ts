/**
 * Records of deployments. A record is stored before its deployment runs, and remains after the
 * deployment has ended.
 */

import Type from 'typebox';
import type { SharedArea, StateChange, StateOperation } from '#master';
import { Budget, type LimitValues, writeJson } from '#runtime';
import { defineRow, type Entry, fromJson, jsonField } from '#store';
import { guestLimits } from '../limits.ts';
import type { DeploymentEnd } from '../run-result.ts';
import type { Deployment, DeploymentAction } from './metadata.ts';
import type { DeploymentCall } from './resolved-call.ts';

/** Record of one deployment of one server. */
export interface DeploymentRecord {
  /** Id of the stack's registration. */
  readonly stack: string;
  /** Name of the server in its stack. */
  readonly server: string;
  /** Id of the deployment's entry in the metadata of the server. */
  readonly id: string;
  readonly name: string;
  readonly action: DeploymentAction | undefined;
  readonly minion: string;
  /**
   * State of the deployment. `running`: its job may have been published. `signalling`: the result
   * has not reached Heat yet.
   */
  readonly state: 'done' | 'running' | 'signalling';
  /** Start, in milliseconds since 1970. */
  readonly begunAt: number;
  readonly endedAt?: number;
  readonly command?: string;
  /**
   * Call to run. Present while the deployment runs. Not kept in memory, because its states can be 4
   * MiB large.
   */
  readonly call?: DeploymentCall;
  /**
   * Destination of the deployment's result, and the names of the outputs that the result contains.
   * Present until the result has reached Heat.
   */
  readonly target?: Pick<Deployment, 'outputs' | 'resource' | 'signal'> & {
    readonly serverId: string;
  };
  /** Result for Heat, in JSON. Not kept in memory. */
  readonly body?: string;
  readonly end?: DeploymentEnd;
  /** Reason why the deployment failed, or why Heat rejected the result. */
  readonly reason?: string;
}

const Text = Type.String();
const Time = Type.Number();

/** Format of the encrypted rows with the keys `deployments/records/<stack>/<server>/<id>`. */
const recordRow = defineRow({
  name: 'deployment',
  schema: Type.Unsafe<DeploymentRecord>(
    Type.Object({
      stack: Text,
      server: Text,
      id: Text,
      name: Text,
      action: Type.Optional(Text),
      minion: Text,
      state: Type.Enum(['done', 'running', 'signalling']),
      begunAt: Time,
      endedAt: Type.Optional(Time),
      command: Type.Optional(Text),
      call: Type.Optional(Type.Object({})),
      target: Type.Optional(Type.Object({})),
      body: Type.Optional(Text),
      end: Type.Optional(Text),
      reason: Type.Optional(Text),
    }),
  ),
  packed: { call: jsonField, target: jsonField },
  unversioned: fromJson,
});

/**
 * Time for which a record is retained after Heat no longer lists its deployment, in milliseconds.
 * The list may be outdated, so a later list may contain the deployment again.
 */
const goneRetentionMs = 7 * 86_400_000;
/** Maximum number of finished records of one server. */
const maxPerServer = 1_000;
/** Approximate size of a record in memory without its texts, in bytes. */
const bytesPerRecord = 512;

export interface DeploymentRecordsOptions {
  readonly state: SharedArea;
  /** Returns the name under which the limits count the records of a stack. */
  readonly ownerOf: (stack: string) => string;
  /**
   * Limits on the size of the records in memory, in bytes. Default: the limit
   * `deploymentRecordBytes`.
   */
  readonly bytes?: LimitValues;
  readonly now: () => number;
}

/**
 * Size of a record in memory, in bytes, and the owner of the record. The size counts towards the
 * owner's limit.
 */
interface RecordSize {
  readonly owner: string;
  readonly bytes: number;
}

/**
 * Deployment records of all stacks, encrypted in the store. In a cluster, only the member with the
 * lease writes them. All members apply its writes to their memory.
 */
export class DeploymentRecords {
  readonly #state: SharedArea;
  readonly #ownerOf: (stack: string) => string;
  readonly #now: () => number;
  /**
   * Records by server and by deployment id. {@link serverKey} returns the key of a server. The call
   * and the result of a record are not kept in memory.
   */
  readonly #servers = new Map<string, Map<string, DeploymentRecord>>();
  readonly #bytes: Budget;
  /**
   * Threshold for the total size of one owner's records, in bytes: half of the owner's limit. Above
   * it, finished records are deleted at once instead of after the retention time.
   */
  readonly #crowdedBytes: number;
  readonly #sizes = new WeakMap<DeploymentRecord, RecordSize>();

  private constructor({ state, ownerOf, bytes, now }: DeploymentRecordsOptions) {
    this.#state = state;
    this.#ownerOf = ownerOf;
    const limit = guestLimits.deploymentRecordBytes;
    this.#bytes = new Budget(limit, bytes);
    this.#crowdedBytes = ((bytes ?? limit).perOwner ?? Infinity) / 2;
    this.#now = now;
  }

  static async open(options: DeploymentRecordsOptions): Promise<DeploymentRecords> {
    const { state } = options;
    const records = new DeploymentRecords(options);
    await state.follow(['deployments', 'records'], (change) => records.#note(change));
    return records;
  }

  /** Returns the records of a server, the oldest first. */
  of(stack: string, server: string): readonly DeploymentRecord[] {
    const all = [...(this.#servers.get(serverKey(stack, server))?.values() ?? [])];
    return all.sort((a, b) => a.begunAt - b.begunAt);
  }

  /** Unfinished deployments of all stacks. */
  get open(): readonly DeploymentRecord[] {
    const all = [...this.#servers.values()].flatMap((records) => [...records.values()]);
    return all.filter(({ state }) => state !== 'done');
  }

  ofStack(stack: string): readonly DeploymentRecord[] {
    return [...this.#servers]
      .filter(([key]) => key.startsWith(serverKey(stack, '')))
      .flatMap(([, records]) => [...records.values()])
      .sort((a, b) => a.begunAt - b.begunAt);
  }

  /** Returns the parts of a record that are not in memory: the call and the result. */
  async storedPartsOf(record: DeploymentRecord): Promise<Pick<DeploymentRecord, 'body' | 'call'>> {
    const row = await this.#state.get(rowKey(record));
    return row === undefined ? {} : this.#unpack(row);
  }

  has(stack: string, server: string, id: string): boolean {
    return this.#servers.get(serverKey(stack, server))?.has(id) === true;
  }

  /**
   * Stores a record. Resolves when it is durable.
   * @throws StoreError ERR_REVISION if another cluster member now runs the deployments
   */
  async put(record: DeploymentRecord): Promise<void> {
    const value = this.#state.seal(recordRow.encode(record));
    const { owner, bytes } = this.#sizeOf(record);
    // Count the record before it is stored, so that records that are stored meanwhile see its size.
    this.#bytes.take(owner, bytes);
    try {
      await this.#write([{ op: 'put', key: rowKey(record), value }]);
    } finally {
      this.#bytes.release(owner, bytes);
    }
    if (this.#state.cluster === undefined) this.#remember(record);
    await this.#forgetOldest(record);
  }

  /**
   * Whether the limits on the size of records permit a new record. The answer is valid in the
   * current turn of the event loop, so call `put` in the same turn.
   */
  hasRoomFor(record: DeploymentRecord): boolean {
    const { owner, bytes } = this.#sizeOf(record);
    const hasRoom = this.#bytes.tryTake(owner, bytes);
    if (hasRoom) this.#bytes.release(owner, bytes);
    return hasRoom;
  }

  /**
   * Deletes finished records of a server, if Heat no longer lists their deployments and the
   * retention time has passed. If the owner's records use half of the owner's limit, does not wait
   * for the retention time.
   * @param ids - ids of the deployments that Heat lists
   */
  async keepOnly(stack: string, server: string, ids: ReadonlySet<string>): Promise<void> {
    const isCrowded = this.#bytes.heldBy(this.#ownerOf(stack)) >= this.#crowdedBytes;
    const retentionMs = isCrowded ? 0 : goneRetentionMs;
    const gone = this.of(stack, server).filter(
      ({ id, state, endedAt = 0 }) =>
        state === 'done' && !ids.has(id) && endedAt + retentionMs < this.#now(),
    );
    if (gone.length > 0) await this.#delete(gone);
  }

  /** Deletes the records of a stack. Resolves when the deletion is durable. */
  async forgetStack(stack: string): Promise<void> {
    await this.#state.write([{ op: 'delete-prefix', prefix: ['deployments', 'records', stack] }]);
    if (this.#state.cluster !== undefined) return;
    for (const { server, id } of this.ofStack(stack)) this.#drop(stack, server, id);
  }

  async #forgetOldest({ stack, server }: DeploymentRecord): Promise<void> {
    const done = this.of(stack, server).filter(({ state }) => state === 'done');
    if (done.length > maxPerServer) await this.#delete(done.slice(0, done.length - maxPerServer));
  }

  async #delete(records: readonly DeploymentRecord[]): Promise<void> {
    await this.#write(records.map((record) => ({ op: 'delete', key: rowKey(record) })));
    if (this.#state.cluster !== undefined) return;
    for (const { stack, server, id } of records) this.#drop(stack, server, id);
  }

  async #write(operations: readonly StateOperation[]): Promise<void> {
    const { cluster } = this.#state;
    if (cluster !== undefined) await cluster.writeHeld(operations);
    else await this.#state.write(operations);
  }

  /**
   * Applies a change of a stored record to the records in memory. In a cluster, only the member with
   * the lease writes changes. All members, including the writer, apply the changes with this method.
   */
  #note(change: StateChange): void {
    if (change.type === 'put') {
      this.#remember(this.#unpack(change.entry));
      return;
    }
    const [stack = '', server = '', id = ''] = change.key.slice(-3);
    this.#drop(stack, server, id);
  }

  #unpack({ key, value }: Pick<Entry, 'key' | 'value'>): DeploymentRecord {
    return recordRow.decode({ key, value: this.#state.unseal(value) });
  }

  #drop(stack: string, server: string, id: string): void {
    const key = serverKey(stack, server);
    const records = this.#servers.get(key);
    const record = records?.get(id);
    if (record === undefined) return;
    const { owner, bytes } = this.#sizes.get(record) ?? this.#sizeOf(record);
    this.#bytes.release(owner, bytes);
    records?.delete(id);
    if (records?.size === 0) this.#servers.delete(key);
  }

  #remember({ body: _body, call: _call, ...record }: DeploymentRecord): void {
    this.#drop(record.stack, record.server, record.id);
    const key = serverKey(record.stack, record.server);
    const records = this.#servers.get(key) ?? new Map<string, DeploymentRecord>();
    records.set(record.id, record);
    this.#servers.set(key, records);
    const size = this.#sizeOf(record);
    this.#sizes.set(record, size);
    this.#bytes.take(size.owner, size.bytes);
  }

  #sizeOf({ body: _body, call: _call, target, ...record }: DeploymentRecord): RecordSize {
    const texts = Object.values(record).filter((it) => typeof it === 'string');
    const characters = texts.reduce((sum, it) => sum + it.length, 0);
    const more = target === undefined ? 0 : writeJson(target).length;
    return { owner: this.#ownerOf(record.stack), bytes: bytesPerRecord + characters + more };
  }
}

function serverKey(stack: string, server: string): string {
  return `${stack} ${server}`;
}

function rowKey({ stack, server, id }: DeploymentRecord): readonly string[] {
  return ['deployments', 'records', stack, server, id];
}
