/** Selects which idle connection of an address ends in favour of a new one. */

import { LinkedList, type ListNode } from '#runtime';
import { IdleRanking, type RankedOwner } from './idle-ranking.ts';

/** Connection in {@link IdleConnections}. */
export interface IdleConnection<Connection> extends ListNode<Connection> {
  /** Minion that uses the connection. If no minion is known, the kind of the port. */
  readonly user: string;
  /**
   * Whether a peer must send a request, which can prove the id of its minion. Otherwise old
   * connections are kept, because only their age distinguishes them from those of an attacker.
   */
  readonly awaitsRequest: boolean;
}

interface User<Connection extends ListNode<Connection>> extends RankedOwner<User<Connection>> {
  readonly connections: LinkedList<Connection>;
}

/**
 * Idle connections of one address, by user. A NAT gateway may give many minions the same address.
 * Therefore the user with the most connections loses one. Each operation takes constant time.
 */
export class IdleConnections<Connection extends IdleConnection<Connection>> {
  readonly #users = new Map<string, User<Connection>>();
  readonly #ranking = new IdleRanking<User<Connection>>();

  /**
   * Connection to end first, or `undefined` if there is none. It belongs to the user with the most
   * idle connections. On a port that awaits requests, it is the one that has been idle longest, and
   * on other ports the newest one.
   */
  get first(): Connection | undefined {
    const connections = this.#ranking.first?.connections;
    const oldest = connections?.first;
    return oldest?.awaitsRequest === false ? connections?.last : oldest;
  }

  add(connection: Connection): void {
    const user = this.#userOf(connection.user);
    user.connections.append(connection);
    this.#ranking.set(user, user.idle + 1);
  }

  /** Removes a connection, which must have the same user as when it was added. */
  remove(connection: Connection): void {
    const user = this.#userOf(connection.user);
    user.connections.remove(connection);
    this.#ranking.set(user, user.idle - 1);
    if (user.idle === 0) this.#users.delete(connection.user);
  }

  #userOf(name: string): User<Connection> {
    const known = this.#users.get(name);
    if (known !== undefined) return known;
    const user = {
      connections: new LinkedList<Connection>(),
      idle: 0,
      previous: undefined,
      next: undefined,
    };
    this.#users.set(name, user);
    return user;
  }
}
