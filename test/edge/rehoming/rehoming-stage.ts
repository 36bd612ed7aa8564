/** Statements about the next centre, between centres of the stage. */

import type { ImportedSite, SigningKey, StatementInfo } from '#edge';
import { type NextCentre, type SiteList, type Statement, writeStatement } from '#edge';
import type { Centre } from '../edge-stage.ts';

/** Describes a centre for a statement. */
export function offerOf(
  centre: Centre,
  addresses: readonly string[] = [centre.url],
): Promise<NextCentre> {
  const request = { addresses, behindProxy: false };
  return centre.rpc('site').call<NextCentre>('rehome.offer', request);
}

/** Returns the text of a statement of the centre `centre-1`. */
export function statementOf(
  to: NextCentre,
  signers: readonly SigningKey[],
  changed: Partial<Statement> = {},
): string {
  const issuedAt = Date.now();
  const statement: Statement = {
    centre: 'centre-1',
    sites: ['north'],
    issuedAt,
    expiresAt: issuedAt + 86_400_000,
    afterSeconds: 0,
    to,
    ...changed,
  };
  return writeStatement(statement, signers);
}

export function publishStatement(centre: Centre, statement: string): Promise<StatementInfo> {
  return centre.rpc('site').call<StatementInfo>('rehome.publish', { statement });
}

/** Exports the sites of one centre, and imports them at another one. */
export async function copySites(from: Centre, to: Centre): Promise<readonly ImportedSite[]> {
  const { centre, sites } = await from.rpc('site').call<SiteList>('rehome.export');
  return importSites(to, { centre, sites });
}

export function importSites(
  to: Centre,
  list: Pick<SiteList, 'centre' | 'sites'>,
): Promise<readonly ImportedSite[]> {
  return to.rpc('site').call<readonly ImportedSite[]>('rehome.import', list);
}
