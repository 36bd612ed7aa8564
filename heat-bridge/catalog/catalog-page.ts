/** Generates pages about a whole catalog: `saltbridge bridge docs` and `saltbridge bridge types`. */

import { Catalog } from '../commands/command-catalog.ts';
import { describeCommand } from '../commands/command-info.ts';
import { PlanCatalog } from '../plans/plan-catalog.ts';
import { describePlan } from '../plans/plan-info.ts';
import { catalogAsMarkdown } from './catalog-docs.ts';
import { catalogAsTypes } from './catalog-types.ts';
import type { LoadedCatalog } from './load-catalog.ts';

const writers = { docs: catalogAsMarkdown, types: catalogAsTypes };

/**
 * Returns a page about all commands and plans of catalog files.
 * @param page - form of the page: Markdown, or TypeScript declarations
 * @throws BridgeError ERR_CATALOG
 */
export function catalogPage(
  page: keyof typeof writers,
  { definitions, plans }: Pick<LoadedCatalog, 'definitions' | 'plans'>,
): string {
  const catalog = new Catalog(definitions);
  const commands = catalog.list().map(describeCommand);
  return writers[page](commands, new PlanCatalog(plans, catalog).list().map(describePlan));
}
