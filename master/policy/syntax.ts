/** How the patterns of a policy are read. */
import type { PolicySyntax } from '../../acl/index.ts';
import {
  compileGlob,
  compileLinearPattern,
  compileSearchPattern,
  compileWholePattern,
} from '../../minion-protocol/index.ts';

/** All but targets, which ask for minions. */
export const policySyntax: Omit<PolicySyntax, 'target'> = {
  glob: compileGlob,
  regex: compileWholePattern,
  search: (pattern) => {
    // Refuses what the other engine would have to run: the text is a minion's.
    compileLinearPattern(pattern);
    return compileSearchPattern(pattern);
  },
};
