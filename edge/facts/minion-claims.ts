/**
 * Minion ids that sites have claimed. The first site that reports a minion owns its id. Facts and
 * signals of other sites about this id are refused.
 */

import Type from 'typebox';
import type { ExtensionHost, StateOperation } from '#master';
import { isValidMinionId } from '#minion-protocol';
import { defineRow } from '#store';
import { EdgeError } from '../errors.ts';
import { edgeLimits } from '../limits.ts';

const claimRow = defineRow({
  name: 'claim of a minion',
  schema: Type.Object({ site: Type.String() }),
});
const prefix = ['centre', 'minion'] as const;

export class MinionClaims {
  readonly #host: Pick<ExtensionHost, 'admission' | 'shared'>;
  readonly #siteOf = new Map<string, string>();
  readonly #counts = new Map<string, number>();

  private constructor(host: Pick<ExtensionHost, 'admission' | 'shared'>) {
    this.#host = host;
  }

  static async open(host: Pick<ExtensionHost, 'admission' | 'shared'>): Promise<MinionClaims> {
    const claims = new MinionClaims(host);
    await host.shared.follow([...prefix], (change) => {
      if (change.type === 'put') {
        const minion = change.entry.key.at(-1) ?? '';
        claims.#set(minion, claimRow.decode(change.entry).site);
      } else claims.#set(change.key.at(-1) ?? '', undefined);
    });
    return claims;
  }

  /** Returns the site that has claimed a minion. */
  siteOf(minion: string): string | undefined {
    return this.#siteOf.get(minion);
  }

  /** Names of the sites that have claimed minions. */
  get sites(): readonly string[] {
    return [...new Set(this.#siteOf.values())];
  }

  /** Returns the minions of a site. */
  minionsOf(site: string): readonly string[] {
    return [...this.#siteOf].filter(([, owner]) => owner === site).map(([minion]) => minion);
  }

  /**
   * Claims a minion for a site.
   * @returns the write of the claim
   * @throws EdgeError ERR_SITE_MESSAGE if the centre or another site has a minion with this id
   */
  async claim(site: string, minion: string): Promise<readonly StateOperation[]> {
    if (!isValidMinionId(minion)) throw refused(minion, 'its id is not valid');
    if (this.#host.admission.keyOf(minion) !== undefined) {
      throw refused(minion, 'the centre itself has a key for this id');
    }
    const owner = this.#siteOf.get(minion);
    const claim = {
      op: 'put',
      key: [...prefix, minion],
      value: claimRow.encode({ site }),
    } as const;
    // Repeat the write of an existing claim, because the earlier write may have failed.
    if (owner === site) return [claim];
    if (owner !== undefined) throw refused(minion, 'another site has a minion with this id');
    const { perOwner = 0 } = edgeLimits.minions;
    if ((this.#counts.get(site) ?? 0) >= perOwner) {
      throw refused(minion, `the site already has ${perOwner} minions, which is the maximum`);
    }
    this.#set(minion, site);
    return [claim];
  }

  /**
   * Removes all claims of a site, and the facts of its minions. Returns the ids of these minions.
   */
  async release(site: string): Promise<readonly string[]> {
    const minions = this.minionsOf(site);
    for (const minion of minions) {
      await this.#host.shared.write([
        { op: 'delete', key: [...prefix, minion] },
        { op: 'delete', key: ['centre', 'fact', minion] },
      ]);
      this.#set(minion, undefined);
    }
    return minions;
  }

  #set(minion: string, site: string | undefined): void {
    const before = this.#siteOf.get(minion);
    if (before === site) return;
    if (before !== undefined) this.#counts.set(before, (this.#counts.get(before) ?? 1) - 1);
    if (site === undefined) this.#siteOf.delete(minion);
    else {
      this.#siteOf.set(minion, site);
      this.#counts.set(site, (this.#counts.get(site) ?? 0) + 1);
    }
  }
}

function refused(minion: string, reason: string): EdgeError {
  return new EdgeError('ERR_SITE_MESSAGE', `minion ${minion.slice(0, 256)} refused: ${reason}`);
}
