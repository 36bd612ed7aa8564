/** Reads URLs of services from the service catalog of a Keystone login. */

import Type from 'typebox';
import { compileSchema, readJsonAnswer, trimEnd } from '#runtime';

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
 * Returns the public URL of a service, without a trailing slash.
 * @param body - response to the login, which contains the service catalog
 */
export async function publicServiceUrl(
  body: string,
  type: 'messaging' | 'orchestration',
  region: string | null | undefined,
): Promise<string | undefined> {
  const answer = await readJsonAnswer(body);
  if (!isCatalog.Check(answer)) return undefined;
  const url = answer.token.catalog
    .filter((service) => service.type === type)
    .flatMap(({ endpoints }) => endpoints)
    .find((it) => it.interface === 'public' && (region ?? it.region) === it.region)?.url;
  const isUsable = url !== undefined && /^https?:\/\//.test(url) && URL.canParse(url);
  return isUsable ? trimEnd(url, '/') : undefined;
}
