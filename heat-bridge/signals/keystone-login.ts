/** Log-in to Keystone v3 as the user of a handle or of a stack, and the catalog of the answer. */

import Type from 'typebox';
import { logInBody, tokensUrl } from '#master';
import { compileSchema, tryParseJson } from '#runtime';
import type { Ask } from '../transports/transport.ts';
import { type DeliveryOutcome, deliveryOutcomeOf } from './delivery-outcome.ts';

/** Credentials of a user of Keystone's. */
export interface Credentials {
  readonly authUrl: string;
  readonly userId: string;
  readonly password: string;
  readonly projectId: string;
}

/** Who is in, or why nobody is. */
export type LoginResult =
  | { readonly isIn: true; readonly token: string; readonly body: string }
  | { readonly isIn: false; readonly outcome: DeliveryOutcome };

/** Catalogs of large clouds have some tens of kilobytes. */
const maxCatalogBytes = 1_048_576;

/** A refusal is final: the user goes with its stack. */
export function logInToKeystone(
  ask: Ask,
  { authUrl, userId, password, projectId }: Credentials,
): Promise<LoginResult> {
  return requestToken(ask, authUrl, logInBody({ id: userId, password }, { id: projectId }));
}

/** @param body - of the log-in, as JSON */
export async function requestToken(ask: Ask, authUrl: string, body: string): Promise<LoginResult> {
  const exchange = await ask({
    method: 'POST',
    url: tokensUrl(authUrl),
    body,
    maxAnswerBytes: maxCatalogBytes,
  });
  const outcome = deliveryOutcomeOf(exchange, [201]);
  if (outcome.kind === 'again' || exchange.kind !== 'answer') return { isIn: false, outcome };
  if (outcome.kind === 'final') {
    return { isIn: false, outcome: { ...outcome, reason: `log-in ${outcome.reason}` } };
  }
  const token = exchange.headers['x-subject-token'];
  if (typeof token !== 'string') {
    return { isIn: false, outcome: { kind: 'final', reason: 'log-in answered without a token' } };
  }
  return { isIn: true, token, body: exchange.body };
}

const isCatalog = compileSchema(
  Type.Object({
    token: Type.Object({
      catalog: Type.Array(
        Type.Object({
          type: Type.String(),
          endpoints: Type.Array(
            Type.Object({
              interface: Type.String(),
              url: Type.String(),
              region: Type.Optional(Type.Union([Type.String(), Type.Null()])),
            }),
          ),
        }),
      ),
    }),
  }),
);

/**
 * The public address of a service in the catalog of a log-in, without a slash at its end.
 * @param body - the answer to the log-in
 */
export function publicServiceUrl(
  body: string,
  type: 'messaging' | 'orchestration',
  region: string | null | undefined,
): string | undefined {
  const answer = tryParseJson(body);
  if (!isCatalog.Check(answer)) return undefined;
  const url = answer.token.catalog
    .filter((service) => service.type === type)
    .flatMap(({ endpoints }) => endpoints)
    .find((it) => it.interface === 'public' && (region ?? it.region) === it.region)?.url;
  const isUsable = url !== undefined && /^https?:\/\//.test(url) && URL.canParse(url);
  return isUsable ? url.replace(/\/+$/, '') : undefined;
}
