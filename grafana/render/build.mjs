import * as esbuild from 'esbuild';

await esbuild.build({
  entryPoints: ['page/app.jsx'],
  bundle: true,
  outfile: 'out/app.js',
  format: 'iife',
  jsx: 'automatic',
  minify: true,
  loader: { '.svg': 'dataurl', '.png': 'dataurl', '.ttf': 'empty' },
  define: { 'process.env.NODE_ENV': '"production"', global: 'window' },
  logLevel: 'error',
});
