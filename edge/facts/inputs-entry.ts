/**
 * Log entry in which a site reports how many pillars it has compiled, and which grains they depend
 * on.
 */

import Type, { type Static } from 'typebox';
import { compileSchema } from '#runtime';

/** Kind of the log entries with which a site reports its compiled pillars and their inputs. */
export const inputsKind = 'inputs';

/**
 * Maximum number of grains in an entry. If more grains affect the pillars, the site reports those
 * that have the highest numbers of different values.
 */
export const maxInputGrains = 100;

/**
 * Number of pillars, or of distinct values of a grain. The maximum is low enough that the sum over
 * all sites is exact.
 */
const Count = Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1 });
const strict = { additionalProperties: false };

const Inputs = Type.Object(
  {
    shared: Count,
    own: Count,
    grains: Type.Array(
      Type.Object(
        {
          grain: Type.String({ maxLength: 255 }),
          values: Count,
          pillars: Count,
          isShared: Type.Boolean(),
        },
        strict,
      ),
      { maxItems: maxInputGrains },
    ),
  },
  strict,
);

/** Number of compiled pillars of a site, and the grains that they depend on. */
export type SiteInputs = Readonly<Static<typeof Inputs>>;

export const inputsCheck = compileSchema(Inputs);
