/**
 * Enforces {@link GuardLimits} for the connections of one listener: number of connections,
 * deadlines and memory per address. It also stores which minions use each connection. It does no
 * I/O and has no timer, so any listener can use it.
 */
import type { Socket } from 'node:net';
import { addressOwner, MultiMap } from '#runtime';
import { type IdleConnection, IdleConnections } from './idle-connections.ts';
import { IdleRanking, type RankedOwner } from './idle-ranking.ts';
import { transportLimits } from './limits.ts';

const BYTES_PER_EXTRA_SECOND = 64 * 1024;

const maxRefused = transportLimits.refusedRequests.perOwner ?? Infinity;
const keptConnections = transportLimits.keptConnections.perOwner ?? Infinity;

/** Limits for the peers of a listener, independent of the protocol. */
export interface GuardLimits {
  /** Maximum time from connecting to the end of the handshake, in milliseconds. Default: 30,000. */
  readonly handshakeMs: number;
  /**
   * Time from connecting to the first complete request on the request port, in milliseconds, plus
   * one second for each 64 KiB received. Default: 30,000. It does not apply to known addresses:
   * after a restart of the master, the ZeroMQ sockets of minions reconnect and are silent until
   * their next request.
   */
  readonly firstRequestMs: number;
  /**
   * Maximum time from the first to the last byte of a message, in milliseconds. The time is
   * extended by one second for each 64 KiB received. Default: 30,000.
   */
  readonly messageMs: number;
  /**
   * Time in milliseconds after which a peer that does not read its output is disconnected. Default:
   * 60,000.
   */
  readonly stallMs: number;
  /**
   * Delay between a request that gets no reply and the end of its connection, in milliseconds.
   * Default: 5,000. Minions over TCP and WebSocket repeat the request as soon as the connection
   * ends. Without the delay, they would use up their three attempts at once. ZeroMQ minions wait
   * for a similar time themselves.
   */
  readonly unansweredMs: number;
  /**
   * Maximum memory for the subscriptions and the incomplete messages of all connections, in bytes.
   * At the limit, a connection of an unknown address that holds most is ended. If no unknown address
   * holds any, a connection of the known address that holds most is ended. Default: 128 MiB.
   */
  readonly maxHeldBytes: number;
  /**
   * Maximum memory for incomplete messages and subscriptions of one unknown address, in bytes.
   * Default: 32 MiB. An address is unknown until a request from it has been verified.
   */
  readonly maxHeldBytesPerAddress: number;
  /**
   * Maximum number of connections on the request port and the publish port together. At the limit,
   * a new connection evicts an idle one: of the unknown address with the most idle connections, or,
   * if unknown addresses have none, of the known address with the most. {@link IdleConnections}
   * selects the connection of the address. Default: 65,536.
   */
  readonly maxConnections: number;
  /**
   * Maximum number of connections of one address. A new one evicts an idle one, which
   * {@link IdleConnections} selects. Default: 65,536, because a fleet may share an address.
   */
  readonly maxConnectionsPerAddress: number;
  /**
   * Maximum number of new connections of one unknown address. A connection is new until its first
   * request has ended. A further connection evicts the oldest new one. Default: 1,000.
   */
  readonly maxNewConnectionsPerAddress: number;
  /**
   * Maximum number of known addresses. The least recently active one is evicted first. Default:
   * 65,536.
   */
  readonly maxKnownAddresses: number;
}

/** Reason for which the guard ended a connection. */
export type GuardRefusal =
  | 'handshake-timeout'
  | 'first-request-timeout'
  | 'message-timeout'
  | 'stalled-reader'
  | 'unanswered'
  | 'refused-requests'
  | 'too-many-connections'
  | 'too-many-from-address'
  | 'held-bytes'
  | 'held-bytes-from-address';

/** State of an address that has open connections. */
interface AddressRecord extends RankedOwner<AddressRecord> {
  readonly key: string;
  /** All connections of the address. */
  readonly connections: Set<GuardedConnection>;
  readonly idleConnections: IdleConnections<GuardedConnection>;
  /** Connections that count towards {@link GuardLimits.maxNewConnectionsPerAddress}, oldest first. */
  readonly newConnections: Set<GuardedConnection>;
  heldBytes: number;
}

/** Progress of a connection. */
type Phase = 'handshake' | 'first-request' | 'proven';

/** Rules for all peers of a port. */
export interface PortRules {
  /** Whether a peer must send a request soon after it has connected. */
  readonly awaitsRequest: boolean;
  /**
   * Whether a connection of a known address or minion stays open even if the peer never reads its
   * output.
   */
  readonly keepsStalled: boolean;
}

/** Object that owns the socket of a connection. */
export interface ConnectionOwner {
  /** Called once when the connection has ended, for any reason. Destroys the socket. */
  onEnd(): void;
  /** Completes current requests, then ends the connection. */
  finish(): void;
}

const NO_MINIONS: ReadonlySet<string> = new Set();

/** One connection in the guard's table. */
export class GuardedConnection implements IdleConnection<GuardedConnection> {
  readonly address: string;
  /** Key of the limits per address: the IPv4 address, or the IPv6 network. */
  readonly limitKey: string;
  /** Time of connecting, in milliseconds on the guard's clock. */
  readonly connectedAt: number;
  /**
   * Time at which the peer last made progress in reading its queued output, in milliseconds on the
   * guard's clock. `undefined` if no output is queued.
   */
  stalledSince: number | undefined;
  /** Neighbours in the list of idle connections. */
  previous: GuardedConnection | undefined;
  next: GuardedConnection | undefined;
  #minionIds: Set<string> | undefined;
  readonly #guard: ConnectionGuard;
  readonly #rules: PortRules;
  readonly #owner: ConnectionOwner;
  #phase: Phase = 'handshake';
  #heldBytes = 0;
  #messageSince: number | undefined;
  #unansweredSince: number | undefined;
  /**
   * Number of refused requests, minus the number of verified requests, but at least 0. If it
   * exceeds {@link maxRefused}, the connection ends.
   */
  #refused = 0;
  #isBusy = false;
  #isEnded = false;

  constructor(guard: ConnectionGuard, address: string, rules: PortRules, owner: ConnectionOwner) {
    this.#guard = guard;
    this.#rules = rules;
    this.#owner = owner;
    this.address = address;
    this.limitKey = addressOwner(address);
    this.connectedAt = guard.now();
  }

  /** Whether a verified request has arrived from the address of the connection before. */
  get isKnown(): boolean {
    return this.#guard.isKnown(this);
  }

  /** Ids of the minions whose requests on this connection were verified. */
  get minionIds(): ReadonlySet<string> {
    return this.#minionIds ?? NO_MINIONS;
  }

  /** Id of the minion whose request was verified first, or `undefined`. */
  get firstMinion(): string | undefined {
    return this.#minionIds?.values().next().value;
  }

  get awaitsRequest(): boolean {
    return this.#rules.awaitsRequest;
  }

  get user(): string {
    const minion = this.firstMinion;
    if (minion !== undefined) return `minion ${minion}`;
    return this.awaitsRequest ? 'requests' : 'subscriptions';
  }

  /**
   * Adds a minion id that a request on this connection has proven. The set of ids is created on
   * first use, because most connections have no proven id.
   */
  addMinion(minionId: string): void {
    this.#minionIds ??= new Set();
    this.#minionIds.add(minionId);
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  handshakeDone(): void {
    if (this.awaitsRequest) this.#phase = 'first-request';
    else this.#prove();
  }

  /**
   * Records that the peer waits for the TLS handshake. A waiting connection does not count as a new
   * connection of its address, because it waits for the master.
   */
  awaitHandshake(): void {
    this.#guard.removeNew(this);
  }

  /** Records that the TLS handshake has begun. The connection counts as a new one again. */
  beginHandshake(): void {
    this.setHeldBytes(0);
    this.#guard.addNew(this);
  }

  requestDone(): void {
    if (this.#phase !== 'proven') this.#prove();
  }

  /**
   * Whether a request of the connection is in progress. The guard then does not evict the
   * connection in favour of a new one.
   */
  get isBusy(): boolean {
    return this.#isBusy;
  }

  set isBusy(isBusy: boolean) {
    if (this.#isBusy === isBusy || this.#isEnded) return;
    this.#isBusy = isBusy;
    this.#guard.busyChanged(this);
  }

  /**
   * Sets the memory held for incomplete messages of this peer, in bytes. Ends the connection if a
   * limit is exceeded.
   */
  setHeldBytes(bytes: number): void {
    const refusal = this.#holdBytes(bytes);
    if (refusal !== undefined) this.refuse(refusal);
  }

  /**
   * Sets the memory held for incomplete messages of this peer, in bytes. If a limit is exceeded,
   * keeps the previous value and returns `false`. Unlike {@link setHeldBytes}, never ends the
   * connection.
   */
  trySetHeldBytes(bytes: number): boolean {
    const before = this.#heldBytes;
    const refusal = this.#holdBytes(bytes);
    if (refusal === undefined) return true;
    this.#guard.count(refusal);
    this.#holdBytes(before);
    return false;
  }

  #holdBytes(bytes: number): GuardRefusal | undefined {
    const change = bytes - this.#heldBytes;
    if (change === 0 || this.#isEnded) return undefined;
    this.#heldBytes = bytes;
    return this.#guard.heldBytesChanged(this, change);
  }

  /**
   * Records when the current incoming message began. The time is that of the guard's clock.
   * `undefined`: no message is being received.
   */
  receivingSince(time: number | undefined): void {
    this.#messageSince = time;
  }

  /**
   * Ends the connection after {@link GuardLimits.unansweredMs}, because a request gets no reply.
   */
  leaveUnanswered(): void {
    this.#unansweredSince = this.#guard.now();
  }

  get messageSince(): number | undefined {
    return this.#messageSince;
  }

  /** Marks the connection as used by this minion, after a request of the minion was verified. */
  identify(minionId: string): void {
    if (this.#isEnded) return;
    this.#refused = Math.max(0, this.#refused - 1);
    this.#guard.identified(this, minionId);
  }

  /**
   * Counts a refused request. Ends the connection after too many refused requests. Each verified
   * request cancels one refused request, because a proxy may carry the requests of many minions
   * over one connection.
   */
  noteRefusal(): void {
    this.#refused += 1;
    if (this.#refused > maxRefused) this.refuse('refused-requests');
  }

  /** Ends the connection and counts the reason. */
  refuse(reason: string): void {
    if (this.#isEnded) return;
    this.#guard.count(reason);
    this.end();
  }

  /** Ends the connection, or records that it has ended. May be called twice. */
  end(): void {
    if (this.#isEnded) return;
    this.setHeldBytes(0);
    this.#isEnded = true;
    this.#guard.released(this);
    this.#owner.onEnd();
  }

  /** Completes current requests, then ends the connection. */
  finish(): void {
    this.#owner.finish();
  }

  /** Returns the name of a deadline that this connection has missed, or `undefined`. */
  overdue(now: number, limits: GuardLimits): GuardRefusal | undefined {
    const { isKnown } = this;
    const grace = Math.floor(this.#heldBytes / BYTES_PER_EXTRA_SECOND) * 1000;
    const age = now - this.connectedAt;
    if (this.#phase === 'handshake' && age > limits.handshakeMs) return 'handshake-timeout';
    if (this.#phase === 'first-request' && !isKnown && age > limits.firstRequestMs + grace) {
      return 'first-request-timeout';
    }
    if (isOver(this.#messageSince, now, limits.messageMs + grace)) return 'message-timeout';
    if (isOver(this.#unansweredSince, now, limits.unansweredMs)) return 'unanswered';
    const mayStall = this.#rules.keepsStalled && (isKnown || this.minionIds.size > 0);
    if (mayStall) return undefined;
    return isOver(this.stalledSince, now, limits.stallMs) ? 'stalled-reader' : undefined;
  }

  #prove(): void {
    this.#phase = 'proven';
    this.#guard.removeNew(this);
  }
}

/** Table of the connections of a listener. */
export class ConnectionGuard {
  /** Returns milliseconds since 1970. The clock never goes back. */
  readonly now: () => number;
  readonly limits: GuardLimits;
  readonly #connections = new Set<GuardedConnection>();
  readonly #addresses = new Map<string, AddressRecord>();
  /** Unknown addresses with idle connections. */
  readonly #strangers = new IdleRanking<AddressRecord>();
  /** Known addresses with idle connections. */
  readonly #verified = new IdleRanking<AddressRecord>();
  /** Known addresses, the least recently active one first. */
  readonly #knownAddresses = new Set<string>();
  readonly #byMinion = new MultiMap<string, GuardedConnection>();
  readonly #refusals = new Map<string, number>();
  #heldBytes = 0;

  constructor(limits: GuardLimits, now: () => number) {
    this.limits = limits;
    this.now = now;
  }

  /**
   * Admits a connection, and evicts an older one if a limit requires it. Returns `undefined` if the
   * connection was rejected.
   * @param address - remote address without port
   */
  admit(address: string, rules: PortRules, owner: ConnectionOwner): GuardedConnection | undefined {
    const key = addressOwner(address);
    if (this.#connections.size >= this.limits.maxConnections && !this.#makeRoom(key)) {
      owner.onEnd();
      return undefined;
    }
    if (!this.#hasRoomAt(key)) {
      owner.onEnd();
      return undefined;
    }
    const connection = new GuardedConnection(this, address, rules, owner);
    const record = this.#recordOf(connection.limitKey);
    this.#connections.add(connection);
    record.connections.add(connection);
    this.#addIdle(connection);
    this.addNew(connection);
    return connection;
  }

  /** Completes the current requests of all connections, then ends them. */
  finishAll(): void {
    for (const connection of this.#connections) connection.finish();
  }

  /** Ends all connections. */
  endAll(): void {
    for (const connection of this.#connections) connection.end();
  }

  /** Ends connections whose deadline has expired. Call it about once per second. */
  sweep(): void {
    const now = this.now();
    for (const connection of this.#connections) {
      const reason = connection.overdue(now, this.limits);
      if (reason !== undefined) connection.refuse(reason);
    }
  }

  /**
   * Ends the connections that this minion uses. Their addresses no longer count as addresses of a
   * verified minion.
   */
  disconnect(minionId: string): void {
    for (const connection of [...this.#byMinion.get(minionId)]) {
      this.#forget(connection.limitKey);
      connection.end();
    }
  }

  count(reason: string): void {
    this.#refusals.set(reason, (this.#refusals.get(reason) ?? 0) + 1);
  }

  refusals(): Record<string, number> {
    return Object.fromEntries(this.#refusals);
  }

  isKnown(connection: GuardedConnection): boolean {
    return this.#knownAddresses.has(connection.limitKey);
  }

  /** Counts a new connection of an address. Too many of them evict the oldest one. */
  addNew(connection: GuardedConnection): void {
    const record = this.#addresses.get(connection.limitKey);
    record?.newConnections.add(connection);
    if (record === undefined || connection.isKnown) return;
    if (record.newConnections.size > this.limits.maxNewConnectionsPerAddress) {
      first(record.newConnections)?.refuse('too-many-from-address');
    }
  }

  /** Stops counting a connection as a new one of its address. */
  removeNew(connection: GuardedConnection): void {
    this.#addresses.get(connection.limitKey)?.newConnections.delete(connection);
  }

  identified(connection: GuardedConnection, minionId: string): void {
    this.#remember(connection.limitKey);
    if (connection.minionIds.has(minionId)) return;
    // The user of the connection may change.
    if (!connection.isBusy) this.#removeIdle(connection);
    connection.addMinion(minionId);
    if (!connection.isBusy) this.#addIdle(connection);
    this.#byMinion.add(minionId, connection);
  }

  busyChanged(connection: GuardedConnection): void {
    if (connection.isBusy) this.#removeIdle(connection);
    else this.#addIdle(connection);
  }

  /**
   * Counts a change of the memory for incomplete messages and subscriptions, in bytes, and checks
   * the limits. If all connections together exceed `maxHeldBytes`, ends the idle connection from an
   * unknown address that uses the most memory. If unknown addresses use none, ends such a connection
   * of the known address that uses the most.
   * @returns `undefined` if `connection` may continue. Otherwise a reason why the caller must end
   * `connection` or undo the change. `held-bytes`: the total exceeds `maxHeldBytes`, and
   * `connection` itself uses the most memory, or no connection may be ended.
   * `held-bytes-from-address`: an unknown address exceeds `maxHeldBytesPerAddress`
   */
  heldBytesChanged(connection: GuardedConnection, change: number): GuardRefusal | undefined {
    this.#heldBytes += change;
    const record = this.#addresses.get(connection.limitKey);
    if (record === undefined) return undefined;
    record.heldBytes += change;
    if (change < 0) return undefined;
    if (record.heldBytes > this.limits.maxHeldBytesPerAddress && !connection.isKnown) {
      return 'held-bytes-from-address';
    }
    if (this.#heldBytes <= this.limits.maxHeldBytes) return undefined;
    const worst = this.#heaviestStranger() ?? this.#heaviestKnown() ?? connection;
    if (worst === connection) return 'held-bytes';
    worst.refuse('held-bytes');
    return undefined;
  }

  released(connection: GuardedConnection): void {
    this.#connections.delete(connection);
    const key = connection.limitKey;
    const record = this.#addresses.get(key);
    if (!connection.isBusy) this.#removeIdle(connection);
    record?.connections.delete(connection);
    record?.newConnections.delete(connection);
    if (record?.connections.size === 0) this.#addresses.delete(key);
    for (const minionId of connection.minionIds) this.#byMinion.delete(minionId, connection);
  }

  /**
   * Evicts an idle connection of the unknown address with the most idle connections, to admit a new
   * one. If unknown addresses have none, evicts one of the known address with the most. This
   * address keeps as many connections as the address of the new one then has, or
   * {@link keptConnections} if the new one is of an unknown address. Then a known address that has
   * more than {@link keptConnections} replaces one of its own. Returns `false` if there is no
   * connection to evict.
   * @param key - address of the new connection
   */
  #makeRoom(key: string): boolean {
    const own = this.#addresses.get(key);
    const ownIdle = own?.idle ?? 0;
    const isKnown = this.#knownAddresses.has(key);
    const kept = isKnown ? ownIdle + 1 : keptConnections;
    const verified = this.#verified.first;
    const mayEvict = verified !== undefined && verified.idle > kept;
    const replaced = isKnown && ownIdle > keptConnections ? own : undefined;
    const address = this.#strangers.first ?? (mayEvict ? verified : replaced);
    return this.#evictFrom(address, 'too-many-connections');
  }

  /**
   * Returns whether the address may have one more connection. If the address is at its limit,
   * evicts an idle connection of it. Returns `false` if none of its connections is idle.
   */
  #hasRoomAt(key: string): boolean {
    const record = this.#addresses.get(key);
    const count = record?.connections.size ?? 0;
    if (count < this.limits.maxConnectionsPerAddress) return true;
    return this.#evictFrom(record, 'too-many-from-address');
  }

  /** Ends an idle connection of the address. Returns `false` if there is none. */
  #evictFrom(address: AddressRecord | undefined, reason: GuardRefusal): boolean {
    const connection = address?.idleConnections.first;
    if (connection === undefined) this.count(reason);
    connection?.refuse(reason);
    return connection !== undefined;
  }

  #recordOf(key: string): AddressRecord {
    const known = this.#addresses.get(key);
    if (known !== undefined) return known;
    const record: AddressRecord = {
      key,
      connections: new Set(),
      idleConnections: new IdleConnections(),
      newConnections: new Set(),
      heldBytes: 0,
      idle: 0,
      previous: undefined,
      next: undefined,
    };
    this.#addresses.set(key, record);
    return record;
  }

  #remember(key: string): void {
    if (this.#knownAddresses.delete(key)) {
      this.#knownAddresses.add(key);
      return;
    }
    this.#knownAddresses.add(key);
    this.#rank(key, this.#strangers, this.#verified);
    const oldest = first(this.#knownAddresses);
    if (oldest !== undefined && this.#knownAddresses.size > this.limits.maxKnownAddresses) {
      this.#forget(oldest);
    }
  }

  #forget(key: string): void {
    if (this.#knownAddresses.delete(key)) this.#rank(key, this.#verified, this.#strangers);
  }

  /** Moves an address from one ranking to the other. */
  #rank(key: string, from: IdleRanking<AddressRecord>, to: IdleRanking<AddressRecord>): void {
    const record = this.#addresses.get(key);
    if (record === undefined) return;
    const { idle } = record;
    from.set(record, 0);
    to.set(record, idle);
  }

  #addIdle(connection: GuardedConnection): void {
    const record = this.#addresses.get(connection.limitKey);
    if (record === undefined) return;
    record.idleConnections.add(connection);
    this.#rankingOf(record).set(record, record.idle + 1);
  }

  #removeIdle(connection: GuardedConnection): void {
    const record = this.#addresses.get(connection.limitKey);
    if (record === undefined) return;
    record.idleConnections.remove(connection);
    this.#rankingOf(record).set(record, record.idle - 1);
  }

  #rankingOf({ key }: AddressRecord): IdleRanking<AddressRecord> {
    return this.#knownAddresses.has(key) ? this.#verified : this.#strangers;
  }

  #heaviestStranger(): GuardedConnection | undefined {
    let worst: GuardedConnection | undefined;
    for (const { key, heldBytes, connections } of this.#addresses.values()) {
      const mayBeWorse = heldBytes > (worst?.heldBytes ?? 0) && !this.#knownAddresses.has(key);
      if (mayBeWorse) worst = heavier(worst, heaviest(connections));
    }
    return worst;
  }

  #heaviestKnown(): GuardedConnection | undefined {
    let worst: AddressRecord | undefined;
    for (const record of this.#addresses.values()) {
      const isWorse = record.heldBytes > (worst?.heldBytes ?? 0);
      if (isWorse && this.#knownAddresses.has(record.key)) worst = record;
    }
    return worst && heaviest(worst.connections);
  }
}

function isOver(since: number | undefined, now: number, afterMs: number): boolean {
  return since !== undefined && now - since > afterMs;
}

function first<Item>(items: ReadonlySet<Item>): Item | undefined {
  for (const item of items) return item;
  return undefined;
}

/** Returns the idle connection that holds most memory, or `undefined` if none holds any. */
function heaviest(connections: Iterable<GuardedConnection>): GuardedConnection | undefined {
  let worst: GuardedConnection | undefined;
  for (const connection of connections) {
    if (!connection.isBusy) worst = heavier(worst, connection);
  }
  return worst;
}

/** Returns the connection that holds more memory. */
function heavier(
  first: GuardedConnection | undefined,
  second: GuardedConnection | undefined,
): GuardedConnection | undefined {
  return (second?.heldBytes ?? 0) > (first?.heldBytes ?? 0) ? second : first;
}

/**
 * Returns the remote address, with a mapped IPv4 address in IPv4 form. Returns `undefined` if the
 * peer has already disconnected.
 */
export function peerAddress(socket: Pick<Socket, 'remoteAddress'>): string | undefined {
  return socket.remoteAddress?.replace(/^::ffff:(?=\d+\.)/, '');
}
