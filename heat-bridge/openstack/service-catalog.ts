/** Addresses of services in the catalog that comes with a token of Keystone. */

import Type from 'typebox';
import { compileSchema, tryParseJson } from '#runtime';

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
