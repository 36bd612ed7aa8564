// The documentation site: `npm run docs:site` builds it from the Markdown files of this repository. Pages
// keep their paths in the repository. The sidebar is the table of contents in docs/README.md.
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import description from '../../package.json' with { type: 'json' };

const root = fileURLToPath(new URL('../..', import.meta.url));
const { version } = description;
const output = path.join(root, 'dist', 'site');

/** Pages of the site, relative to the repository. */
const pages = globSync(['*.md', 'docs/**/*.md', 'examples/**/*.md', 'packaging/*.md'], {
  cwd: root,
  exclude: ['docs/api/**', 'docs/reports/**'],
});

/** Path of a page in the site, without `.md`. docs/README.md is the home page. */
function placeOf(page) {
  return page === 'docs/README.md' ? 'index' : page.slice(0, -'.md'.length);
}

/** Groups of the sidebar: the headings of docs/README.md, and the links in the first column below each. */
function sidebar() {
  const text = readFileSync(path.join(root, 'docs/README.md'), 'utf8');
  return text
    .split(/^## /m)
    .slice(1)
    .map((section) => ({
      text: section.slice(0, section.indexOf('\n')).trim(),
      collapsed: true,
      items: [...section.matchAll(/^(?:\||-) *\[(.+?)\]\(([^)]+)\)/gm)].map(([, title, link]) => {
        const [file, anchor] = link.split('#');
        const place = placeOf(path.posix.join('docs', file));
        return {
          text: title.replaceAll('`', ''),
          link: `/${place}${anchor === undefined ? '' : `#${anchor}`}`,
        };
      }),
    }));
}

/** Versions that were built into the same folder before, newest first. */
function otherVersions() {
  if (!existsSync(output)) return [];
  return readdirSync(output, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== version)
    .map(({ name }) => name)
    .sort((a, b) => b.localeCompare(a, 'en', { numeric: true }));
}

/**
 * Makes pages plain Markdown: Vue does not read the double braces of Jinja and Mustache, and links to files
 * that have no page, such as examples, become text.
 */
function plain(markdown) {
  markdown.core.ruler.push('source-links', ({ env, tokens }) => {
    const folder = path.posix.dirname(env.relativePath ?? '');
    for (const token of tokens) {
      let isSource = false;
      for (const child of token.children ?? []) {
        if (child.type === 'link_open') {
          const [file = ''] = (child.attrGet('href') ?? '').split('#');
          isSource =
            !/^[a-z]+:/.test(file) && file !== '' && !pages.includes(path.posix.join(folder, file));
        }
        if (isSource && /^link_(open|close)$/.test(child.type)) {
          isSource = child.type === 'link_open';
          child.type = 'text';
          child.content = '';
        }
      }
    }
  });
  const render = markdown.render.bind(markdown);
  markdown.render = (text, env) => `<div v-pre>\n${render(text, env)}</div>`;
}

// biome-ignore lint/style/noDefaultExport: VitePress requires it.
export default {
  title: 'saltbridge',
  description: 'A Salt-compatible master as a library, and a bridge from orchestration to guests',
  lang: 'en',
  base: `/${version}/`,
  srcDir: root,
  outDir: path.join(output, version),
  cacheDir: path.join(root, 'node_modules', '.cache', 'vitepress'),
  srcExclude: [
    '**/node_modules/**',
    'docs/api/**',
    'docs/reports/**',
    'dist/**',
    'test/**',
    'clients/**',
  ],
  rewrites: (page) => `${placeOf(page)}.md`,
  markdown: { config: plain, languageAlias: { conf: 'ini' } },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    sidebar: sidebar(),
    nav: [
      { text: 'Quick start', link: '/docs/quick-start' },
      {
        text: version,
        items: [
          { text: 'Changes', link: '/CHANGELOG' },
          ...otherVersions().map((name) => ({ text: name, link: `/../${name}/`, target: '_self' })),
        ],
      },
    ],
  },
};
