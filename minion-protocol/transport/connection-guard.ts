/**
 * Keeps the connections of one listener within {@link GuardLimits}: counts, deadlines, memory
 * by address, and who is who. Moves no bytes and owns no timer, so any listener can use it.
 */
import { isIPv6, type Socket } from 'node:net';
import { MultiMap } from '#runtime';

const BYTES_PER_EXTRA_SECOND = 64 * 1024;

/** Bounds that a listener puts on its peers, whatever is spoken. */
export interface GuardLimits {
  /** From connecting to the end of the handshake, milliseconds. Default 30,000. */
  readonly handshakeMs: number;
  /**
   * From connecting to the first complete request on the request port, milliseconds, and one
   * second more for each 64 KiB that arrived. Default 30,000. Does not bind known addresses: their
   * ZeroMQ sockets reconnect after a restart of the master and then wait until they have to ask.
   */
  readonly firstRequestMs: number;
  /**
   * From the first byte of a message to its last, milliseconds, and one second more for each
   * 64 KiB that arrived. Default 30,000.
   */
  readonly messageMs: number;
  /** A peer that reads none of what waits for it is disconnected after this, milliseconds. Default 60,000. */
  readonly stallMs: number;
  /**
   * From a request that gets no answer to the end of its connection, milliseconds. Default 5,000:
   * minions over TCP and WebSocket send again as soon as their connection ends, and at once they
   * would use up their three tries. Over ZeroMQ they wait as long by themselves.
   */
  readonly unansweredMs: number;
  /** Unfinished messages and subscriptions of all connections, bytes. Default 128 MiB. */
  readonly maxHeldBytes: number;
  /** The same for one address that is not known, bytes. Default 32 MiB. */
  readonly maxHeldBytesPerAddress: number;
  /** Connections in all, on both ports. Default 65,536. */
  readonly maxConnections: number;
  /**
   * Connections of one address; the oldest that has nothing under way is closed for a new one.
   * Default 65,536: a fleet may be behind one.
   */
  readonly maxConnectionsPerAddress: number;
  /**
   * Connections of one address that is not known which have not finished handshake and first
   * request; the oldest is closed for a new one. Default 1,000.
   */
  readonly maxNewConnectionsPerAddress: number;
  /** Addresses remembered as known; the one heard longest ago is forgotten. Default 65,536. */
  readonly maxKnownAddresses: number;
}

/** Why the guard ended a connection. */
export type GuardRefusal =
  | 'handshake-timeout'
  | 'first-request-timeout'
  | 'message-timeout'
  | 'stalled-reader'
  | 'unanswered'
  | 'too-many-connections'
  | 'too-many-from-address'
  | 'held-bytes'
  | 'held-bytes-from-address';

/** What is known of an address that has connections. */
interface AddressRecord {
  /** All its connections. */
  readonly connections: Set<GuardedConnection>;
  /** Those that have not finished handshake and first request, oldest first. */
  readonly unproven: Set<GuardedConnection>;
  heldBytes: number;
}

/** How far a connection has come. */
type Phase = 'handshake' | 'first-request' | 'proven';

/** What is asked of all peers of a port. */
export interface PortRules {
  /** Whether something is due from a peer soon after it has connected. */
  readonly awaitsRequest: boolean;
  /** Whether the connection of a known address, or of a minion, stays however long it reads nothing. */
  readonly keepsStalled: boolean;
}

/** Who has the socket of a connection. */
export interface ConnectionOwner {
  /** Called once, when the connection is over, whoever ended it: destroy the socket. */
  onEnd(): void;
  /** Finish what is under way, then end. */
  finish(): void;
}

const NOBODY: ReadonlySet<string> = new Set();

/** One connection as its guard sees it. */
export class GuardedConnection {
  readonly address: string;
  /** What it shares limits with: its address, or its IPv6 network. */
  readonly limitKey: string;
  /** Milliseconds, in the guard's time. */
  readonly connectedAt: number;
  /** Since when output waits that the peer does not take; `undefined`: none waits. */
  stalledSince: number | undefined;
  #minionIds: Set<string> | undefined;
  readonly #guard: ConnectionGuard;
  readonly #rules: PortRules;
  readonly #owner: ConnectionOwner;
  #phase: Phase = 'handshake';
  #heldBytes = 0;
  #messageSince: number | undefined;
  #unansweredSince: number | undefined;
  #isBusy = false;
  #isEnded = false;

  constructor(guard: ConnectionGuard, address: string, rules: PortRules, owner: ConnectionOwner) {
    this.#guard = guard;
    this.#rules = rules;
    this.#owner = owner;
    this.address = address;
    this.limitKey = limitKey(address);
    this.connectedAt = guard.now();
  }

  /** Who has been verified to send from here. */
  get minionIds(): ReadonlySet<string> {
    return this.#minionIds ?? NOBODY;
  }

  /** Most connections are not anybody's, so a set is made for the first one. */
  addMinion(minionId: string): void {
    this.#minionIds ??= new Set();
    this.#minionIds.add(minionId);
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  handshakeDone(): void {
    if (this.#rules.awaitsRequest) this.#phase = 'first-request';
    else this.#prove();
  }

  requestDone(): void {
    if (this.#phase !== 'proven') this.#prove();
  }

  /** Whether something is under way that a newcomer's place is no reason to end. */
  get isBusy(): boolean {
    return this.#isBusy;
  }

  set isBusy(isBusy: boolean) {
    if (this.#isBusy === isBusy || this.#isEnded) return;
    this.#isBusy = isBusy;
    this.#guard.busyChanged(this);
  }

  /** States the memory now held for this peer's unfinished business, bytes. */
  setHeldBytes(bytes: number): void {
    const refusal = this.#holdBytes(bytes);
    if (refusal !== undefined) this.refuse(refusal);
  }

  /** The same, but holds no more where it may not, instead of ending the connection. */
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

  /** States since when a message is arriving, in the guard's time; `undefined`: none is. */
  receivingSince(time: number | undefined): void {
    this.#messageSince = time;
  }

  /** A request of this connection gets no answer: the connection is to end. */
  leaveUnanswered(): void {
    this.#unansweredSince = this.#guard.now();
  }

  get messageSince(): number | undefined {
    return this.#messageSince;
  }

  /** A request of this connection was verified as this minion's. */
  identify(minionId: string): void {
    if (!this.#isEnded) this.#guard.identified(this, minionId);
  }

  /** Ends the connection and counts why. */
  refuse(reason: string): void {
    if (this.#isEnded) return;
    this.#guard.count(reason);
    this.end();
  }

  /** Ends the connection, or takes note that it has ended. May be called twice. */
  end(): void {
    if (this.#isEnded) return;
    this.setHeldBytes(0);
    this.#isEnded = true;
    this.#guard.released(this);
    this.#owner.onEnd();
  }

  /** Lets what is under way finish, and then ends. */
  finish(): void {
    this.#owner.finish();
  }

  /** The deadline that has passed, if one has. `isKnown`: the address is. */
  overdue(now: number, isKnown: boolean, limits: GuardLimits): GuardRefusal | undefined {
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
    this.#guard.proven(this);
  }
}

/** The table of a listener's connections. */
export class ConnectionGuard {
  /** Milliseconds since 1970, never going back. */
  readonly now: () => number;
  readonly limits: GuardLimits;
  readonly #connections = new Set<GuardedConnection>();
  /** Connections from addresses that are not known, oldest first. */
  readonly #strangers = new Set<GuardedConnection>();
  readonly #addresses = new Map<string, AddressRecord>();
  /** In the order of being heard last. */
  readonly #knownAddresses = new Set<string>();
  readonly #byMinion = new MultiMap<string, GuardedConnection>();
  readonly #refusals = new Map<string, number>();
  #heldBytes = 0;

  constructor(limits: GuardLimits, now: () => number) {
    this.limits = limits;
    this.now = now;
  }

  /**
   * Takes a connection in, ending an older one where a limit asks for it; or refuses it.
   * @param address remote, without port
   */
  admit(address: string, rules: PortRules, owner: ConnectionOwner): GuardedConnection | undefined {
    if (this.#connections.size >= this.limits.maxConnections && !this.#makeRoom()) {
      owner.onEnd();
      return undefined;
    }
    if (!this.#hasRoomAt(limitKey(address))) {
      owner.onEnd();
      return undefined;
    }
    const connection = new GuardedConnection(this, address, rules, owner);
    const record = this.#recordOf(connection.limitKey);
    this.#connections.add(connection);
    record.connections.add(connection);
    record.unproven.add(connection);
    if (this.#isKnown(connection)) return connection;
    this.#strangers.add(connection);
    if (record.unproven.size > this.limits.maxNewConnectionsPerAddress) {
      first(record.unproven)?.refuse('too-many-from-address');
    }
    return connection;
  }

  /** Lets all connections finish what they have under way, and then end. */
  finishAll(): void {
    for (const connection of this.#connections) connection.finish();
  }

  /** Ends all connections. */
  endAll(): void {
    for (const connection of this.#connections) connection.end();
  }

  /** Ends what is overdue. To be called about once a second. */
  sweep(): void {
    const now = this.now();
    for (const connection of this.#connections) {
      const reason = connection.overdue(now, this.#isKnown(connection), this.limits);
      if (reason !== undefined) connection.refuse(reason);
    }
  }

  /** Ends the connections identified as this minion's; their addresses are no longer known. */
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

  proven(connection: GuardedConnection): void {
    this.#addresses.get(connection.limitKey)?.unproven.delete(connection);
  }

  identified(connection: GuardedConnection, minionId: string): void {
    this.#remember(connection.limitKey);
    if (connection.minionIds.has(minionId)) return;
    connection.addMinion(minionId);
    this.#byMinion.add(minionId, connection);
  }

  busyChanged(connection: GuardedConnection): void {
    if (connection.isBusy) this.#strangers.delete(connection);
    else if (!this.#isKnown(connection)) this.#strangers.add(connection);
  }

  /** Ends another connection where all hold too much. @returns why this one may not hold so much */
  heldBytesChanged(connection: GuardedConnection, change: number): GuardRefusal | undefined {
    this.#heldBytes += change;
    const record = this.#addresses.get(connection.limitKey);
    if (record === undefined) return undefined;
    record.heldBytes += change;
    if (change < 0) return undefined;
    if (record.heldBytes > this.limits.maxHeldBytesPerAddress && !this.#isKnown(connection)) {
      return 'held-bytes-from-address';
    }
    if (this.#heldBytes <= this.limits.maxHeldBytes) return undefined;
    const worst = heaviest(this.#strangers) ?? connection;
    if (worst === connection) return 'held-bytes';
    worst.refuse('held-bytes');
    return undefined;
  }

  released(connection: GuardedConnection): void {
    this.#connections.delete(connection);
    this.#strangers.delete(connection);
    const key = connection.limitKey;
    const record = this.#addresses.get(key);
    record?.connections.delete(connection);
    record?.unproven.delete(connection);
    if (record?.connections.size === 0) this.#addresses.delete(key);
    for (const minionId of connection.minionIds) this.#byMinion.delete(minionId, connection);
  }

  /** A stranger goes first; among known addresses nobody is closed for a newcomer. */
  #makeRoom(): boolean {
    const oldest = first(this.#strangers);
    if (oldest === undefined) this.count('too-many-connections');
    oldest?.refuse('too-many-connections');
    return oldest !== undefined;
  }

  /** The oldest that has nothing under way goes first. */
  #hasRoomAt(key: string): boolean {
    const connections = this.#addresses.get(key)?.connections ?? new Set();
    if (connections.size < this.limits.maxConnectionsPerAddress) return true;
    const oldest = firstIdle(connections);
    if (oldest === undefined) this.count('too-many-from-address');
    oldest?.refuse('too-many-from-address');
    return oldest !== undefined;
  }

  #recordOf(key: string): AddressRecord {
    const known = this.#addresses.get(key);
    if (known !== undefined) return known;
    const record = { connections: new Set<never>(), unproven: new Set<never>(), heldBytes: 0 };
    this.#addresses.set(key, record);
    return record;
  }

  #isKnown(connection: GuardedConnection): boolean {
    return this.#knownAddresses.has(connection.limitKey);
  }

  #remember(key: string): void {
    if (this.#knownAddresses.delete(key)) {
      this.#knownAddresses.add(key);
      return;
    }
    this.#knownAddresses.add(key);
    for (const connection of this.#addresses.get(key)?.connections ?? []) {
      this.#strangers.delete(connection);
    }
    const oldest = first(this.#knownAddresses);
    if (oldest !== undefined && this.#knownAddresses.size > this.limits.maxKnownAddresses) {
      this.#forget(oldest);
    }
  }

  #forget(key: string): void {
    this.#knownAddresses.delete(key);
    for (const connection of this.#addresses.get(key)?.connections ?? []) {
      if (!connection.isBusy) this.#strangers.add(connection);
    }
  }
}

function isOver(since: number | undefined, now: number, afterMs: number): boolean {
  return since !== undefined && now - since > afterMs;
}

function first<Item>(items: ReadonlySet<Item>): Item | undefined {
  for (const item of items) return item;
  return undefined;
}

function firstIdle(connections: Iterable<GuardedConnection>): GuardedConnection | undefined {
  for (const connection of connections) if (!connection.isBusy) return connection;
  return undefined;
}

function heaviest(connections: Iterable<GuardedConnection>): GuardedConnection | undefined {
  let worst: GuardedConnection | undefined;
  for (const connection of connections) {
    if (connection.heldBytes > (worst?.heldBytes ?? 0)) worst = connection;
  }
  return worst;
}

/** The remote address, an IPv4 one in its own form; `undefined` if the peer has gone already. */
export function peerAddress(socket: Pick<Socket, 'remoteAddress'>): string | undefined {
  return socket.remoteAddress?.replace(/^::ffff:(?=\d+\.)/, '');
}

/** What shares a limit: an IPv4 address, or the 64-bit network that one IPv6 customer is given. */
function limitKey(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = ''] = address.split('::', 1);
  const groups = head === '' ? [] : head.split(':');
  while (groups.length < 4) groups.push('0');
  return `${groups.slice(0, 4).join(':')}::/64`;
}
